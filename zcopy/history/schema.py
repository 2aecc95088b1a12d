"""The tables, as small named steps that are applied once (docs/history.md has the whole picture).

A step is never changed after a release: the next need is the next step. `user_version` counts the steps a
file has; it is read again inside BEGIN IMMEDIATE, because 24 first runs may start on the same empty folder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

Step: TypeAlias = Callable[[sqlite3.Connection], None]

# "zcpy": other programs' databases are told from ours by it (https://sqlite.org/fileformat.html, offset 68).
APPLICATION_ID: Final = 0x7A637079


def _facts(db: sqlite3.Connection) -> None:
    """Documents that repeat from run to run (cases, keys, hosts), each kept once and named by a number."""
    db.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    db.execute(
        "CREATE TABLE facts (fact INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, json TEXT NOT NULL)"
    )


def _runs(db: sqlite3.Connection) -> None:
    db.execute(
        """CREATE TABLE runs (
            run INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            command TEXT NOT NULL,
            started TEXT NOT NULL,
            version TEXT NOT NULL,
            status TEXT NOT NULL,
            exit INTEGER NOT NULL,
            host_name TEXT NOT NULL,
            host INTEGER NOT NULL REFERENCES facts,
            key INTEGER NOT NULL REFERENCES facts,
            argv TEXT NOT NULL,
            params TEXT NOT NULL,
            locks TEXT NOT NULL,
            warnings TEXT NOT NULL)"""
    )
    # `list --command` newest first, and the runs of one command that a trend walks.
    db.execute("CREATE INDEX runs_of_command ON runs (command, id)")
    # The runs that may be compared with a given one.
    db.execute("CREATE INDEX runs_of_key ON runs (key, id)")


def _rows(db: sqlite3.Connection) -> None:
    """Rows in the order they were measured. `row_key` is the row's own part of the comparability key."""
    db.execute(
        """CREATE TABLE rows (
            row INTEGER PRIMARY KEY,
            run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,
            case_fact INTEGER NOT NULL REFERENCES facts,
            row_key INTEGER REFERENCES facts,
            outcome TEXT NOT NULL,
            reason TEXT,
            bytes INTEGER NOT NULL,
            bytes_copied INTEGER NOT NULL,
            verified INTEGER,
            rate_phase TEXT,
            rate_of TEXT NOT NULL,
            extra TEXT NOT NULL)"""
    )
    # A run's rows in order, and how many there are, without touching the table.
    db.execute("CREATE UNIQUE INDEX rows_of_run ON rows (run, ordinal)")
    # One case over all runs (trend), and the same case in two runs (diff).
    db.execute("CREATE INDEX rows_of_case ON rows (case_fact, run)")


def _samples(db: sqlite3.Connection) -> None:
    """One record per row and phase with every sample: the key alone finds the phase that a trend asks for."""
    db.execute(
        """CREATE TABLE samples (
            row INTEGER NOT NULL REFERENCES rows ON DELETE CASCADE,
            phase TEXT NOT NULL,
            position INTEGER NOT NULL,
            count INTEGER NOT NULL,
            ns BLOB NOT NULL,
            PRIMARY KEY (row, phase)) WITHOUT ROWID"""
    )


def _names(db: sqlite3.Connection) -> None:
    """What people call runs: one label and one note each, and any number of tags."""
    db.execute("ALTER TABLE runs ADD COLUMN label TEXT")
    db.execute("ALTER TABLE runs ADD COLUMN note TEXT")
    db.execute(
        """CREATE TABLE tags (
            tag TEXT PRIMARY KEY,
            run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE) WITHOUT ROWID"""
    )
    # A run's tags, for lists and for the cascade.
    db.execute("CREATE INDEX tags_of_run ON tags (run)")


STEPS: Final[tuple[Step, ...]] = (_facts, _runs, _rows, _samples, _names)
KNOWN: Final = len(STEPS)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, with the write lock from the start; a full disk shows at the COMMIT.

    Whatever ends the block early, a signal's exception included, undoes it.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # SQLite may have rolled back by itself.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(db: sqlite3.Connection) -> Iterator[None]:
    """Several reads of one state, whatever other processes write meanwhile."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def version_of(db: sqlite3.Connection) -> int:
    """How many steps the file has; 0 for one without tables."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def is_foreign(db: sqlite3.Connection) -> bool:
    """Whether the file has tables of some other program."""
    # Tables first: a process that creates ours in between has set the id by the time we ask for it.
    has_tables = db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
    return has_tables and int(db.execute("PRAGMA application_id").fetchone()[0]) != APPLICATION_ID


def writer_of(db: sqlite3.Connection) -> str | None:
    """The version of zcopy that brought the file to its schema, or None where it cannot be read."""
    try:
        found = db.execute("SELECT value FROM meta WHERE name = 'writer'").fetchone()
    except sqlite3.OperationalError:
        return None
    return str(found[0]) if found else None


def upgrade(db: sqlite3.Connection, writer: str, known: int = KNOWN) -> None:
    """Apply the steps the file lacks, all or none; `writer` is the version of zcopy that does it.

    Safe when many processes do it at once: the first to get the write lock applies, the others find it done.
    """
    if version_of(db) >= known:
        return
    with transaction(db):
        have = version_of(db)
        if have >= known:
            return
        for step in STEPS[have:known]:
            step(db)
        db.execute("INSERT OR REPLACE INTO meta VALUES ('writer', ?)", (writer,))
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {known}")
