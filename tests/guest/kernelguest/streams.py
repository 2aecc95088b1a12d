"""What comes out of the guests: pipes read as they fill, output passed on."""

import os
import selectors
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

Sink = Callable[[bytes], None]


def passed_on(target: BinaryIO) -> Sink:
    def write(data: bytes) -> None:
        target.write(data)
        target.flush()

    return write


def by_line(sink: Sink) -> Sink:
    """Calls the sink with whole lines; an unfinished one follows at the end (b"")."""
    held = bytearray()

    def write(data: bytes) -> None:
        held.extend(data)
        cut = held.rfind(b"\n") + 1 if data else len(held)
        for line in bytes(held[:cut]).splitlines(keepends=True):
            sink(line)
        del held[:cut]

    return write


def held_back(data: bytes, mark: bytes) -> int:
    """How many last bytes of the data may be the beginning of the mark."""
    longest = min(len(data), len(mark) - 1)
    fitting = (n for n in range(longest, 0, -1) if data.endswith(mark[:n]))
    return next(fitting, 0)


def until(mark: bytes, sink: Sink, ended: Callable[[], None]) -> Sink:
    """Passes on what comes before the mark; nothing is delayed that cannot be it."""
    held = b""

    def write(data: bytes) -> None:
        nonlocal held
        text, found, _ = (held + data).partition(mark)
        keep = held_back(text, mark) if data and not found else 0
        ready, held = text[: len(text) - keep], text[len(text) - keep :]
        # An empty write is the end of the pipe: it is passed on, never made up.
        if ready or not data:
            sink(ready)
        if found or not data:
            ended()

    return write


def labelled(label: str, target: BinaryIO) -> Sink:
    """Lines with the guest's name before them, so that two can share a terminal."""
    plain = passed_on(target)

    def write(line: bytes) -> None:
        end = b"" if line.endswith(b"\n") else b"\n"
        plain(f"{label}| ".encode() + line + end)

    return by_line(write)


def outputs(label: str | None) -> dict[str, Sink]:
    streams = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer}
    if label is None:
        return {name: passed_on(target) for name, target in streams.items()}
    return {name: labelled(label, target) for name, target in streams.items()}


class Pump:
    """Reads any number of pipes in one thread and hands the bytes to their sinks."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()

    def pipe(self, sink: Sink) -> int:
        """The write end of a new pipe, to be given to a process."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self.selector.register(reader, selectors.EVENT_READ, sink)
        return writer

    def turn(self, seconds: float) -> None:
        """One round: at most this long when there is nothing to read."""
        for key, _ in self.selector.select(seconds):
            data = os.read(key.fd, 1 << 16)
            sink: Sink = key.data
            sink(data)
            if not data:
                self.selector.unregister(key.fd)
                os.close(key.fd)

    @property
    def busy(self) -> bool:
        return bool(self.selector.get_map())

    def close(self) -> None:
        for fd in [key.fd for key in self.selector.get_map().values()]:
            os.close(fd)
        self.selector.close()


@contextmanager
def pump() -> Iterator[Pump]:
    this = Pump()
    try:
        yield this
    finally:
        this.close()
