"""The three standard streams, made safe: present, and honest about what could not be written."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from dataclasses import dataclass
from typing import TextIO

from zcopy import limits
from zcopy.errors import OutputError


class ClosedPipe(OutputError):
    """The reader of stdout went away (`| head -1`): the exit code is OutputError's, and nothing is said."""


class _Raw(io.FileIO):
    """Stdout's file descriptor. A failed write becomes an OutputError once; what follows it is discarded,
    so that neither the interpreter's last flush nor a cleanup reports the same failure again."""

    _failed = False

    def write(self, data: bytes | memoryview, /) -> int:  # type: ignore[override]
        if self._failed:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self._failed = True
            if error.errno == errno.EPIPE:
                raise ClosedPipe("stdout was closed by its reader") from error
            hint = "" if limits.behind(error) else "'-o FILE' writes to a file"
            raise OutputError(f"stdout cannot be written: {limits.reason(error)}", hint) from error


@dataclass(frozen=True, slots=True)
class Streams:
    """Where commands write: results to `stdout`, everything else to `stderr`."""

    stdout: TextIO
    stderr: TextIO


def guard() -> Streams:
    """Open what the caller closed, replace sys.stdout by one that raises OutputError, and hand both out.

    A closed descriptor 0, 1 or 2 would be taken by the next file that is opened (the history, a lock), and
    whatever writes to "stdout" would write into that.
    """
    for fd in range(3):
        _occupy(fd)
    encoding = sys.stdout.encoding if sys.stdout else "utf-8"
    sys.stdout = _text(_Raw(1, "w", closefd=False), encoding)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - lives as long as the process
    return Streams(sys.stdout, sys.stderr)


def _text(raw: io.FileIO, encoding: str) -> TextIO:
    # File names that are no UTF-8 come out as the bytes they are; what another encoding lacks, as an escape.
    errors = "surrogateescape" if encoding.lower().replace("-", "") == "utf8" else "backslashreplace"
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors=errors, newline="\n")


def _occupy(fd: int) -> None:
    try:
        os.fstat(fd)
    except OSError:
        # Read-only, so that a write to a stdout nobody has fails instead of vanishing; stderr may vanish.
        found = os.open(os.devnull, os.O_RDONLY if fd < 2 else os.O_WRONLY)
        if found != fd:
            os.dup2(found, fd)
            os.close(found)
        os.set_inheritable(fd, True)


def terminal_columns(fd: int) -> int | None:
    """The width of the terminal behind `fd`, or None where there is none or it does not say."""
    with contextlib.suppress(OSError):
        return os.get_terminal_size(fd).columns or None
    return None
