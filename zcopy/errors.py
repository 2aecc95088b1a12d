"""Everything that can go wrong, and the exit code each kind of it ends in (docs/errors.md)."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit codes of every command; `hold` otherwise returns its command's own code."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REGRESSION = 3
    INCONCLUSIVE = 4
    REFUSED = 69
    OUTPUT = 74
    BUSY = 75
    SKIPPED = 77
    MAX_REACHED = 124
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    INTERRUPTED = 130
    TERMINATED = 143


class ZcopyError(Exception):
    """One line for the user: what object, the system's reason, and (`hint`) what helps.

    `main` prints it as ``zcopy: error: MESSAGE (HINT)`` and leaves with `exit`.
    """

    exit: ClassVar[Exit] = Exit.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class MeasurementError(ZcopyError):
    """A measurement or a verification failed."""


class UsageError(ZcopyError):
    """The words of the call are wrong: nothing was measured."""

    exit = Exit.USAGE


class RefusedError(ZcopyError):
    """Advertised or expected, tried, and the system said no: a finding."""

    exit = Exit.REFUSED


class OutputError(ZcopyError):
    """The output (or, with --require-save, the store) cannot be written."""

    exit = Exit.OUTPUT


class BusyError(ZcopyError):
    """A lock is busy until the deadline, or the box is not quiet."""

    exit = Exit.BUSY


class SkippedError(ZcopyError):
    """Nothing of the asked kind is on this box, or it does not fit."""

    exit = Exit.SKIPPED


class Stopped(BaseException):
    """The user (INT) or the system (TERM, HUP) ended the run: keep what was measured.

    A BaseException like KeyboardInterrupt, so that no `except Exception` on the way swallows it.
    """

    def __init__(self, exit: Exit) -> None:
        super().__init__(exit.name.lower())
        self.exit = exit
