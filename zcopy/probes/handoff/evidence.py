"""The kernel's own account of what moved: /proc/PID/io and /proc/PID/maps of both processes.

What this cannot see is said in docs/method.md: memory that a process held before the request, and copies that
a device makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zcopy.errors import MeasurementError

_FLOOR: Final = (
    8 << 20
)  # what the interpreter's own heap may grow by, in steps of a MiB, in a run of many variants


@dataclass(frozen=True, slots=True)
class Io:
    """Bytes a process has moved through read- and write-like system calls (proc_pid_io(5))."""

    rchar: int
    wchar: int

    @staticmethod
    def of(pid: int) -> Io | None:
        """None where the counters cannot be read (no CONFIG_TASK_IO_ACCOUNTING, or another user's process)."""
        try:
            text = Path(f"/proc/{pid}/io").read_text()
        except OSError:
            return None
        fields = dict(line.split(": ") for line in text.splitlines())
        return Io(int(fields["rchar"]), int(fields["wchar"]))


@dataclass(frozen=True, slots=True)
class Moved:
    """What both processes moved through system calls in a span, in bytes; reading the counters is not counted."""

    decoder_read: int
    decoder_written: int
    provider_read: int
    provider_written: int

    @property
    def total(self) -> int:
        return self.decoder_read + self.decoder_written + self.provider_read + self.provider_written


class Meter:
    """Measures `Moved` between `start` and `stop`."""

    def __init__(self, decoder: int, provider: int) -> None:
        self._pids = (decoder, provider)
        self._before: tuple[Io, Io] | None = None
        self._own = 0

    def start(self) -> None:
        """Reads the counters twice: what one reading adds to the reader's own is taken off again."""
        first, provider = Io.of(self._pids[0]), Io.of(self._pids[1])
        second = Io.of(self._pids[0])
        if first is None or second is None or provider is None:
            self._before = None
            return
        # Between two readings of our own lies one of ours and one of the provider's.
        self._own = second.rchar - first.rchar
        self._before = (second, provider)

    def stop(self) -> Moved | None:
        """None where the counters cannot be read. To be read in the same order as in `start`."""
        provider, decoder = Io.of(self._pids[1]), Io.of(self._pids[0])
        if self._before is None or provider is None or decoder is None:
            return None
        before, provider_before = self._before
        return Moved(
            max(0, decoder.rchar - before.rchar - self._own),
            decoder.wchar - before.wchar,
            provider.rchar - provider_before.rchar,
            provider.wchar - provider_before.wchar,
        )


@dataclass(frozen=True, slots=True)
class Mapping_:
    """A line of /proc/PID/maps that can be written to."""

    start: int
    end: int
    identity: tuple[str, int]  # device and inode

    @property
    def size(self) -> int:
        return self.end - self.start


def writable(pid: int) -> list[Mapping_]:
    """The writable mappings of a process. Raises MeasurementError where it is gone or another user's."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError as error:
        raise MeasurementError(f"/proc/{pid}/maps: {error.strerror}") from error
    found = []
    for line in lines:
        span, mode, _, device, inode = line.split()[:5]
        if "w" in mode:
            start, _, end = span.partition("-")
            found.append(Mapping_(int(start, 16), int(end, 16), (device, int(inode))))
    return found


class SharedProof:
    """That both processes map the same object, and that neither has got another mapping of payload size since.

    `before` is taken at the start; the objects of other variants' regions, which the decoder holds too, are known.
    """

    def __init__(self, decoder: int, provider: int, payload: int) -> None:
        self._pids = (decoder, provider)
        self._payload = max(payload, _FLOOR)
        self._before = [self._sizes(pid) for pid in self._pids]

    def _sizes(self, pid: int) -> dict[tuple[str, int], int]:
        sizes: dict[tuple[str, int], int] = {}
        for each in writable(pid):
            sizes[each.identity] = sizes.get(each.identity, 0) + each.size
        return sizes

    def fault(self, address: int, known: frozenset[int]) -> str | None:
        """Why 0 bytes copied must not be claimed, or None.

        `address` is where the decoder maps the region; `known` are the inodes of its other regions.
        """
        region = next((each for each in writable(self._pids[0]) if each.start <= address < each.end), None)
        if region is None or region.identity[1] == 0:
            return "the region is no mapping of a shared object"
        for who, pid, before in zip(("decoder", "provider"), self._pids, self._before, strict=True):
            now = self._sizes(pid)
            if region.identity not in now:
                return f"the {who} does not map the region's object"
            for identity, size in now.items():
                grown = size - before.get(identity, 0)
                if identity != region.identity and identity[1] not in known and grown >= self._payload:
                    return f"the {who} holds another {grown} writable bytes than the region"
        return None
