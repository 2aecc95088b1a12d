"""Opening the history for the commands that show it."""

from __future__ import annotations

from contextlib import suppress

from zcopy.history import spool
from zcopy.history.faults import StoreError
from zcopy.history.location import HistorySettings
from zcopy.history.store import Store
from zcopy.model import Warning_


def open_to_show(settings: HistorySettings) -> Store:
    """The store for reading, after runs that wait in a spool were taken up where that is possible.

    Raises StoreError where it cannot be read.
    """
    warnings: tuple[Warning_, ...] = ()
    if spool.waiting(settings):
        with suppress(StoreError, OSError), Store.open(settings) as store:
            warnings = (*store.warnings, *spool.take_up(settings, store))
    reader = Store.open_to_read(settings)
    reader.warnings = (*warnings, *reader.warnings)
    return reader
