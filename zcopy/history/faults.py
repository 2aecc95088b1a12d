"""What can be wrong with the store, told apart by SQLite's error names and never by its message texts."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from zcopy import limits
from zcopy.errors import OutputError
from zcopy.history.files import Identity
from zcopy.units import KIB


class Fault(StrEnum):
    """Kinds of faults of the store; the value is what the user reads."""

    FULL = "the disk is full"
    TOO_LARGE = "its files may not grow so far"
    READ_ONLY = "it is read-only"
    CANNOT_OPEN = "it cannot be opened"
    BUSY = "another process kept it locked"
    IO = "input/output error"
    CORRUPT = "it is corrupt"
    MOVED = "it was moved away while it was open"
    NEWER = "it was written by a newer zcopy"
    FOREIGN = "it is not a history of zcopy"
    OTHER = "it cannot be used"


NO_SHM: Final = "SQLITE_IOERR_SHMSIZE"
"""The -shm file beside the store cannot get its size (`_SHM`): even reading needs it."""
_SHM: Final = 32 * KIB

# An extended name such as SQLITE_IOERR_WRITE begins with its primary one; the first that fits counts.
_NAMES: Final = {
    NO_SHM: Fault.FULL,
    "SQLITE_FULL": Fault.FULL,
    "SQLITE_READONLY": Fault.READ_ONLY,
    "SQLITE_CANTOPEN": Fault.CANNOT_OPEN,
    "SQLITE_PERM": Fault.CANNOT_OPEN,
    "SQLITE_BUSY": Fault.BUSY,
    "SQLITE_LOCKED": Fault.BUSY,
    "SQLITE_IOERR": Fault.IO,
    "SQLITE_CORRUPT": Fault.CORRUPT,
    "SQLITE_NOTADB": Fault.CORRUPT,
}
_ERRNOS: Final = {
    errno.ENOSPC: Fault.FULL,
    errno.EDQUOT: Fault.FULL,
    errno.EFBIG: Fault.TOO_LARGE,
    errno.EROFS: Fault.READ_ONLY,
    errno.EIO: Fault.IO,
}


class StoreError(OutputError):
    """The store cannot be read or written; `fault` says of which kind, `reason` says why in words.

    `file` is the file that was open then, where one was.
    """

    def __init__(
        self, path: Path, fault: Fault, detail: str = "", hint: str = "", file: Identity | None = None
    ) -> None:
        self.fault = fault
        self.file = file
        self.reason = f"{fault} ({detail})" if detail else str(fault)
        super().__init__(f"history {path}: {self.reason}", hint)


def name_of(error: sqlite3.Error) -> str:
    """SQLite's name of the error; the class's where the error is not SQLite's but its Python module's."""
    return str(getattr(error, "sqlite_errorname", type(error).__name__))


def fault_of(error: sqlite3.Error) -> Fault:
    """The kind of an SQLite error, by its error name."""
    name = name_of(error)
    most = limits.FILE_SIZE.amount
    if name == NO_SHM and most is not None and most < _SHM:
        return Fault.TOO_LARGE
    return next((fault for start, fault in _NAMES.items() if name.startswith(start)), Fault.OTHER)


@contextmanager
def faults(path: Path, file: Identity | None = None) -> Iterator[None]:
    """Turn what SQLite and the system raise inside into a StoreError about `path`, which is `file` now."""
    try:
        yield
    except sqlite3.Error as error:
        fault = fault_of(error)
        raise StoreError(path, fault, ", ".join((name_of(error), *_limit(fault))), file=file) from error
    except OSError as error:
        fault = _ERRNOS.get(error.errno or 0, Fault.CANNOT_OPEN)
        raise StoreError(path, fault, limits.reason(error)) from error


def _limit(fault: Fault) -> Iterator[str]:
    """The limit of this process that an error of SQLite, which tells no errno, may come from."""
    if fault is Fault.CANNOT_OPEN and (limit := limits.too_few_descriptors()):
        yield limit
    if fault in (Fault.TOO_LARGE, Fault.IO) and limits.FILE_SIZE.amount is not None:
        yield str(limits.FILE_SIZE)
