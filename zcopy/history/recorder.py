"""Saving a run while it is measured. A fault of the store never costs the result: it is spooled and told."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from zcopy.errors import Exit
from zcopy.history import spool
from zcopy.history.faults import Fault, StoreError, faults
from zcopy.history.files import Identity, set_aside
from zcopy.history.location import HistorySettings
from zcopy.history.store import Store
from zcopy.model import Row, Run, Status, Warning_


class Keeper(Protocol):
    """What a runner tells about its run, in this order."""

    def begin(self, run: Run) -> None:
        """The run starts; it counts as interrupted until it is finished."""

    def row(self, row: Row) -> None:
        """The next row is complete."""

    def finish(self, run: Run) -> Run:
        """The run has ended, with all its rows; returns it with `saved` and what there is to warn about."""


class NullRecorder:
    """--no-save: keeps nothing."""

    def begin(self, run: Run) -> None:
        """Nothing is kept."""

    def row(self, row: Row) -> None:
        """Nothing is kept."""

    def finish(self, run: Run) -> Run:
        """The run as it is."""
        return run


class Recorder:
    """Keeps one run in the store, row by row, and in the spool from the moment the store fails.

    No method raises for what is wrong with a store or a disk. `finish` closes the store.
    """

    def __init__(self, settings: HistorySettings) -> None:
        self._settings = settings
        self._store: Store | None = None
        self._run: Run | None = None
        self._warnings: tuple[Warning_, ...] = ()
        self._fault: StoreError | None = None
        self._spooled: Path | None = None

    def begin(self, run: Run) -> None:
        """Save the run at once, as interrupted, and take up what earlier commands had to spool."""
        self._run = run.with_(status=Status.INTERRUPTED, exit=int(Exit.INTERRUPTED))
        self._keep(self._run, lambda store: store.begin(self._told(run)))

    def row(self, row: Row) -> None:
        """Save the next row of the run that was begun."""
        if self._run is None:
            raise RuntimeError("a row before its run was begun")
        run = self._run.with_(rows=(*self._run.rows, row))
        self._keep(run, lambda store: store.add_row(run.id, row))

    def finish(self, run: Run) -> Run:
        """Save the run as it ended. It says `saved` only after the COMMIT, else a warning says why not."""
        self._fault = None  # what was wrong may have passed: one last try
        self._keep(run, lambda store: store.finish(self._told(run)))
        self._close()
        told = self._told(run)
        if self._fault is not None:
            return told.with_(warnings=(*told.warnings, self._not_saved(self._fault)))
        if self._spooled:
            with suppress(OSError):
                spool.drop(self._settings, run.id)
        return told.with_(saved=True)

    def _keep(self, run: Run, action: Callable[[Store], None]) -> None:
        """Put the run, as it is now, into the store by `action`; from the first fault on, into the spool."""
        self._run = run
        if self._fault is None:
            self._fault = self._try(run, action)
        if self._fault is not None:
            self._spooled = spool.put(self._settings, self._told(run))

    def _try(self, run: Run, action: Callable[[Store], None]) -> StoreError | None:
        try:
            try:
                action(self._opened())
            except StoreError as error:
                if error.fault not in (Fault.CORRUPT, Fault.MOVED) or error.file is None:
                    raise
                self._renew(run, error, error.file)
                self._opened().save(self._told(run))
        except StoreError as error:
            self._close()
            return error
        return None

    def _opened(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._settings)
            self._warnings += self._store.warnings
            # A spool that cannot be taken up now waits for the next command.
            with suppress(StoreError, OSError):
                self._warnings += spool.take_up(self._settings, self._store)
        return self._store

    def _renew(self, run: Run, error: StoreError, file: Identity) -> None:
        """Set the corrupt store aside, unless somebody did so already, so that a new one can be started."""
        self._close()
        path = self._settings.db
        stamp = re.sub(r"[^0-9TZ]", "", run.started)
        with faults(path):
            aside = set_aside(path, file, stamp, self._settings.timeout)
        if aside is not None:
            text = f"{path}: {error.reason}; it is set aside as {aside}, and a new history is started"
            self._warnings += (Warning_("history-corrupt", text),)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _told(self, run: Run) -> Run:
        """The run with what there is to warn about so far."""
        return run.with_(warnings=(*run.warnings, *self._warnings), saved=False)

    def _not_saved(self, fault: StoreError) -> Warning_:
        where = (
            f"it is spooled as {self._spooled}, and the next command that can write there takes it up"
            if self._spooled
            else "it could not be spooled either, so this output is all there is of it"
        )
        return Warning_("not-saved", f"this run is not saved in {self._settings.db}: {fault.reason}; {where}")
