"""Where a run goes that cannot be saved: its JSON document in a private folder, until it is taken up.

One file per run, ``ID.json``, replaced whole by rename each time the run grows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zcopy.history.encode import json_text
from zcopy.history.files import create_private, folder_lock, is_private, make_folder
from zcopy.history.location import HistorySettings
from zcopy.history.store import Store
from zcopy.model import Run, Warning_

_SUFFIX: Final = ".json"
_PARTIAL: Final = ".part"


def put(settings: HistorySettings, run: Run) -> Path | None:
    """Write the run's document into the first spool that takes it; its path, or None when none does."""
    document = json_text(run.document()).encode()
    for folder in settings.spools:
        try:
            make_folder(folder, settings.owner)
            if is_private(folder, settings.owner):
                return _replace(folder / f"{run.id}{_SUFFIX}", document, settings)
        except OSError:
            continue
    return None


def drop(settings: HistorySettings, run_id: str) -> None:
    """Remove what the spools hold of this run, which is saved now."""
    for folder in _usable(settings):
        (folder / f"{run_id}{_SUFFIX}").unlink(missing_ok=True)


def waiting(settings: HistorySettings) -> bool:
    """Whether any spool holds a run."""
    return any(path for folder in _usable(settings) for path in folder.glob(f"*{_SUFFIX}"))


def take_up(settings: HistorySettings, store: Store) -> tuple[Warning_, ...]:
    """Save every spooled run and remove its file; says what is unreadable. Raises StoreError, OSError."""
    warnings: list[Warning_] = []
    for folder in _usable(settings):
        # Without the lock a run still under way could put a longer version in the place of the one that is
        # read here and removed afterwards.
        with folder_lock(folder, settings.timeout) as alone:
            for path in sorted(folder.glob(f"*{_SUFFIX}")) if alone else ():
                warnings += _take(path, store)
    return tuple(warnings)


def _take(path: Path, store: Store) -> Iterator[Warning_]:
    try:
        run = Run.parse(json.loads(path.read_bytes()))
    except (ValueError, LookupError, TypeError, AttributeError):
        bad = path.rename(path.with_name(f"{path.name}.bad"))
        yield Warning_("spool-unreadable", f"a spooled run is no run's document: it is kept as {bad}")
        return
    store.take(run)
    path.unlink()


def _usable(settings: HistorySettings) -> Iterator[Path]:
    """The spools that exist and that nobody else can have put anything into."""
    return (folder for folder in settings.spools if is_private(folder, settings.owner))


def _replace(path: Path, document: bytes, settings: HistorySettings) -> Path:
    """Write beside and rename, so that no half document is ever at `path`. Raises OSError."""
    partial = path.with_suffix(_PARTIAL)
    partial.unlink(missing_ok=True)
    fd = create_private(partial, settings.owner)
    if fd is None:
        raise FileExistsError(partial)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(document)
            file.flush()
            os.fsync(fd)
        with folder_lock(path.parent, settings.timeout):
            return partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
