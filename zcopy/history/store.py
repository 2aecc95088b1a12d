"""The open store: runs in, runs out. Every write is one transaction that is there, whole, or not at all."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from zcopy.errors import Exit, UsageError
from zcopy.history import reading, writing
from zcopy.history.faults import Fault, StoreError, faults
from zcopy.history.files import is_at
from zcopy.history.location import HistorySettings
from zcopy.history.opening import Opened, newer, open_readable, open_writable
from zcopy.history.reading import RunSummary
from zcopy.history.schema import KNOWN, snapshot, transaction, version_of
from zcopy.model import Row, Run, Status, Warning_

_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Store:
    """An open history; use it in a `with`. Its methods raise StoreError, and nothing of SQLite's own.

    `warnings` is what the opening has to tell.
    """

    def __init__(self, settings: HistorySettings, opened: Opened) -> None:
        self.path = settings.db
        self.warnings: tuple[Warning_, ...] = opened.warnings
        self._file = opened.file
        self._db = opened.db

    @classmethod
    def open(cls, settings: HistorySettings) -> Store:
        """For writing: folder and file are made, the schema is brought up to date. Raises StoreError."""
        return cls(settings, open_writable(settings))

    @classmethod
    def open_to_read(cls, settings: HistorySettings) -> Store:
        """For reading, also where nothing can be written; no store there reads as an empty one."""
        return cls(settings, open_readable(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; again does nothing."""
        self._db.close()

    def begin(self, run: Run) -> None:
        """Store the run as `interrupted`, which it is until `finish` says otherwise."""
        self.save(run.with_(status=Status.INTERRUPTED, exit=int(Exit.INTERRUPTED)))

    def add_row(self, run_id: str, row: Row) -> None:
        """Store the next row of a run that was begun. Raises LookupError for one that was not."""
        with self._writing():
            number = writing.run_number(self._db, run_id)
            ordinal = self._db.execute("SELECT COUNT(*) FROM rows WHERE run = ?", (number,)).fetchone()[0]
            writing.put_row(self._db, number, ordinal, row)

    def finish(self, run: Run) -> None:
        """Store the run as it ended. Only after this returns may it be called saved."""
        self.save(run)

    def save(self, run: Run) -> None:
        """Store the whole run in one go; what there is of the same id is replaced."""
        with self._writing():
            writing.put_run(self._db, run)

    def take(self, run: Run) -> bool:
        """Store a run that comes from elsewhere, unless a version as complete is there already.

        A run only ever grows, so of two versions the one that goes further is the later one. Taking the same
        run twice changes nothing.
        """
        with self._writing():
            try:
                stored = reading.load_run(self._db, run.id)
            except (LookupError, ValueError, TypeError):  # not there, or damaged
                stored = None
            newer_version = stored is None or _progress(run) > _progress(stored)
            if newer_version:
                writing.put_run(self._db, run)
        return newer_version

    def tag(self, run_id: str, tag: str) -> None:
        """Let `tag` name this run, and no other any more. Raises UsageError on words that cannot be tags."""
        if not _TAG.fullmatch(tag):
            raise UsageError(
                f"{tag!r} cannot be a tag", "letters, digits, dot, dash and underscore, at most 64"
            )
        with self._writing():
            number = writing.run_number(self._db, run_id)
            self._db.execute("INSERT OR REPLACE INTO tags (tag, run) VALUES (?, ?)", (tag, number))

    def runs(
        self, limit: int | None = None, command: str | None = None, status: str | None = None
    ) -> list[RunSummary]:
        """The runs, newest first; everything unless `limit` says how many."""
        with self._reading():
            return reading.summaries(self._db, limit, command, status)

    def load(self, run_id: str) -> Run:
        """The run of a full id, with every sample; it says `saved`. Raises LookupError."""
        with self._reading():
            return reading.load_run(self._db, run_id)

    def resolve(self, ref: str) -> str:
        """The id of the run `ref` names: an id or its beginning, a tag, @last, @prev. Raises UsageError."""
        with self._reading():
            return reading.resolve(self._db, ref)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with faults(self.path, self._file):
            with transaction(self._db):
                yield
            # What was written into a file that is not at the path any more is not saved, COMMIT or not.
            if self._file and not is_at(self.path, self._file):
                raise StoreError(self.path, Fault.MOVED, file=self._file)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say what is wrong when stored data make no sense: a newer schema, or damage SQLite cannot see."""
        try:
            with faults(self.path, self._file), snapshot(self._db):
                yield
        except (StoreError, ValueError, TypeError) as error:
            if isinstance(error, StoreError) and error.fault is not Fault.OTHER:
                raise
            version = self._version()
            if version > KNOWN:
                raise newer(self._db, self.path, version) from error
            if isinstance(error, StoreError):
                raise
            raise StoreError(self.path, Fault.CORRUPT, "a stored run is damaged") from error

    def _version(self) -> int:
        try:
            return version_of(self._db)
        except sqlite3.Error:
            return 0


def _progress(run: Run) -> tuple[bool, int, int]:
    return run.status is not Status.INTERRUPTED, len(run.rows), len(run.warnings)
