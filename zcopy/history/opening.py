"""Opening the store, for writing or for reading only, in every state it can be found in."""

from __future__ import annotations

import os
import sqlite3
import stat
from dataclasses import dataclass
from pathlib import Path

from zcopy import __version__
from zcopy.history.faults import NO_SHM, Fault, StoreError, fault_of, faults, name_of
from zcopy.history.files import Identity, create_private, folder_lock, identity, make_folder
from zcopy.history.location import HistorySettings
from zcopy.history.schema import KNOWN, is_foreign, upgrade, version_of, writer_of
from zcopy.model import Warning_


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection, the file behind it (None for one in memory), and what the user must know."""

    db: sqlite3.Connection
    file: Identity | None = None
    warnings: tuple[Warning_, ...] = ()


def open_writable(settings: HistorySettings) -> Opened:
    """Open the store for writing; create it, or bring its schema up to date. Raises StoreError."""
    path = settings.db
    with faults(path):
        make_folder(path.parent, settings.owner)
        if _size(path):
            return _current(settings, ())
        # The lock is held until the tables are there, so that a file seen empty under it was left empty.
        with folder_lock(path.parent, settings.timeout):
            fd = create_private(path, settings.owner)
            if fd is not None:
                os.close(fd)
            was_empty = fd is None and not _size(path)
            return _current(settings, (_emptied(path),) if was_empty else ())


def open_readable(settings: HistorySettings) -> Opened:
    """Open the store for reading: nothing is created, and a read-only place will do. Raises StoreError.

    A store that is not there reads as an empty one. One with a newer schema is given as it is: its reader
    must expect tables that it does not know.
    """
    path = settings.db
    with faults(path):
        if not _exists(path):
            return Opened(_blank())
        if not _size(path):
            with folder_lock(path.parent, settings.timeout):  # its creator may be at work
                if not _size(path):
                    return Opened(_blank(), warnings=(_emptied(path),))
        return _readable(settings)


def _current(settings: HistorySettings, warnings: tuple[Warning_, ...]) -> Opened:
    path = settings.db
    file = identity(path)
    db = _connect(path, "mode=rw", settings.timeout)
    try:
        with faults(path, file):
            _prepare(db, path)
    except BaseException:
        db.close()
        raise
    return Opened(db, file, warnings)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    _refuse_foreign(db, path)
    if (version := version_of(db)) > KNOWN:
        raise newer(db, path, version)
    upgrade(db, __version__)
    _use_log(db)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")


def _readable(settings: HistorySettings) -> Opened:
    try:
        return _shown(settings, "NORMAL")
    except sqlite3.OperationalError as error:
        if name_of(error) != NO_SHM:
            raise
    # On a full disk: a reader that locks all others out for a moment needs no -shm.
    return _shown(settings, "EXCLUSIVE")


def _shown(settings: HistorySettings, locking: str) -> Opened:
    path = settings.db
    file = identity(path)
    writable = all(os.access(place, os.W_OK, effective_ids=True) for place in (path.parent, path))
    db = _connect(path, "mode=rw" if writable else _read_only(path), settings.timeout)
    try:
        db.execute(f"PRAGMA locking_mode = {locking}")
        _refuse_foreign(db, path)
        if version_of(db) < KNOWN:
            db = _upgraded(db, in_place=writable)
        db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return Opened(db, file)


def _read_only(path: Path) -> str:
    """How to open a store whose folder takes no -shm file. Beside a -wal, immutable would overlook rows."""
    return "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"


def _upgraded(db: sqlite3.Connection, in_place: bool) -> sqlite3.Connection:
    """The same runs under today's schema; in memory where the file itself cannot be changed."""
    if not in_place:
        memory = _memory()
        db.backup(memory)
        db.close()
        db = memory
    upgrade(db, __version__)
    return db


def _blank() -> sqlite3.Connection:
    db = _memory()
    upgrade(db, __version__)
    return db


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def _connect(path: Path, how: str, timeout: float) -> sqlite3.Connection:
    # mode=rw never creates: a file of SQLite's own making would have the umask's mode.
    return sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=timeout, isolation_level=None)


def _use_log(db: sqlite3.Connection) -> None:
    """Switch to write-ahead logging, now that the tables are there. Without it everything works too."""
    if db.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    try:
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if fault_of(error) is not Fault.BUSY:
            raise


def _exists(path: Path) -> bool:
    """Raises StoreError for what is there and is not a regular file: opening a FIFO would wait for ever."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISREG(mode):
        raise StoreError(path, Fault.FOREIGN, "not a regular file", "name another file with --db")
    return True


def _size(path: Path) -> int:
    return path.stat().st_size if _exists(path) else 0


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    if is_foreign(db):
        raise StoreError(path, Fault.FOREIGN, "", "name another file with --db")


def newer(db: sqlite3.Connection, path: Path, version: int) -> StoreError:
    """The error about a store that a later zcopy has upgraded."""
    writer = writer_of(db)
    by = f"zcopy {writer}, schema {version}; this is {__version__}, which knows {KNOWN}"
    return StoreError(path, Fault.NEWER, by, f"use zcopy {writer or 'of that version'} or another --db")


def _emptied(path: Path) -> Warning_:
    text = f"{path} was empty (0 bytes): if it held runs, they are gone; it starts anew"
    return Warning_("history-empty", text)
