"""Where results go: stdout, a file that appears whole or not at all, or a device or FIFO.

Opened before the first measurement, so that a wrong place is known before the work is done::

    with Results.open(app, format, json, output) as results:
        ...
        results.emit(Report((table,), run.document))
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from zcopy import limits
from zcopy.cli.context import AppContext
from zcopy.draft import Draft, write_all
from zcopy.errors import OutputError, UsageError
from zcopy.render import Format, Look, render
from zcopy.table import Report

_SUFFIXES: Final = {
    ".json": Format.JSON, ".csv": Format.CSV, ".tsv": Format.TSV, ".md": Format.MD, ".txt": Format.TABLE,
}  # fmt: skip
_OWN_FD: Final = re.compile(r"/dev/(?:fd/(\d+)|(stdin|stdout|stderr))|/proc/self/fd/(\d+)")
_NAMED_FD: Final = {"stdin": 0, "stdout": 1, "stderr": 2}


class Results:
    """The one writer of a command's results. Leaving the `with` without `emit` leaves no trace."""

    def __init__(self, app: AppContext, format: Format, sink: Sink) -> None:
        self._app = app
        self._sink = sink
        self.format = format

    @classmethod
    def open(cls, app: AppContext, format: Format | None, json: bool, output: str | None) -> Self:
        """Decide the format and open the place.

        Raises UsageError for contradicting options, OutputError (exit 74) for a place that cannot be written.
        """
        chosen = _format(app, format, json, output)
        return cls(app, chosen, _open(app, output))

    def emit(self, report: Report, *, partial: bool = False) -> None:
        """Write the report. A `partial` one, of an interrupted run, never replaces a file: a good old result
        is worth more, and the history has what was measured."""
        self._app.progress.clear()
        if partial and self._sink.replaces:
            self._app.warn(f"interrupted: {self._sink.name} is left as it was")
            return
        self._sink.write(render(report, self.format, self._sink.look(self._app.settings.look)))
        if self._sink.replaces and self._app.settings.stderr_tty:
            self._app.note(f"written to {self._sink.name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.close()


def _format(app: AppContext, format: Format | None, json: bool, output: str | None) -> Format:
    if json and format not in (None, Format.JSON):
        raise UsageError(f"--json contradicts --format {format}")
    if json or format:
        return format or Format.JSON
    if output is not None and output != "-":
        return _SUFFIXES.get(Path(output).suffix.lower()) or _elsewhere(app)
    if app.settings.stdout_tty:
        return Format(app.config.format or Format.TABLE)
    return _elsewhere(app)


def _elsewhere(app: AppContext) -> Format:
    return Format(app.config.pipe_format or Format.TSV)


class Sink(ABC):
    """A place that takes one text."""

    name: str
    replaces = False  # whether a finished earlier result is lost by writing

    @abstractmethod
    def write(self, text: str) -> None:
        """Write all of it. Raises OutputError."""

    def look(self, stdout: Look) -> Look:
        """What this place can show; a file takes any width and no escapes."""
        return Look(ascii=False, colour=False, width=None) if self.replaces else stdout

    def close(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Give back what is held; what was not written whole disappears. Idempotent."""


class StdoutSink(Sink):
    """The process's stdout."""

    name = "stdout"

    def __init__(self, app: AppContext) -> None:
        self._stream = app.streams.stdout
        if fcntl.fcntl(self._stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OutputError("stdout is closed", "'-o FILE' writes to a file")

    def write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class FileSink(Sink):
    """A regular file, replaced in one step."""

    replaces = True

    def __init__(self, name: str, target: Path) -> None:
        self.name = name
        self._draft = Draft(target)

    def write(self, text: str) -> None:
        with _failures(self.name):
            self._draft.commit(_encoded(text))

    def close(self) -> None:
        self._draft.close()


class DirectSink(Sink):
    """A FIFO, a device, or a descriptor of our own: there is nothing to rename. Owns `fd`."""

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self._fd = fd

    def look(self, stdout: Look) -> Look:
        return Look(ascii=stdout.ascii, colour=False, width=stdout.width if os.isatty(self._fd) else None)

    def write(self, text: str) -> None:
        with _failures(self.name):
            write_all(self._fd, _encoded(text))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _open(app: AppContext, output: str | None) -> Sink:
    if output is None or output == "-":
        return StdoutSink(app)
    if not output:
        raise UsageError("--output is empty", "name a file, or - for stdout")
    with _failures(output):
        if own := _OWN_FD.fullmatch(output):
            # Dup: opening the path anew would start at offset 0 of a redirected file, or rename over it.
            return DirectSink(output, os.dup(int(own[1] or own[3] or _NAMED_FD[own[2]])))
        return _open_path(output, Path(os.path.realpath(app.settings.cwd / output)))


def _open_path(name: str, target: Path) -> Sink:
    mode = target.stat().st_mode if target.exists() else None
    if mode is None or stat.S_ISREG(mode):
        return FileSink(name, target)
    if stat.S_ISDIR(mode) or stat.S_ISBLK(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a block device"
        raise OutputError(f"cannot write {name}: it is {what}", "name a file")
    return DirectSink(name, os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY))


@contextlib.contextmanager
def _failures(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "" if limits.behind(error) else "name another place with -o"  # a limit goes everywhere
        raise OutputError(f"cannot write {name}: {limits.reason(error)}", hint) from error


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
