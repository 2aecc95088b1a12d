"""Device locks: one flock(2) file per device name, which flock(1) can lock too (docs/locks.md)."""

from __future__ import annotations

from zcopy.locks.acquire import Held, acquire, no_locks
from zcopy.locks.holders import Holder, Use
from zcopy.locks.paths import LockFolder, lock_folder
from zcopy.locks.report import LockReport, lock_path, lock_reports
from zcopy.locks.settings import Clock, Folders, LockSettings, lock_disabled

__all__ = [
    "Clock",
    "Folders",
    "Held",
    "Holder",
    "LockFolder",
    "LockReport",
    "LockSettings",
    "Use",
    "acquire",
    "lock_disabled",
    "lock_folder",
    "lock_path",
    "lock_reports",
    "no_locks",
]
