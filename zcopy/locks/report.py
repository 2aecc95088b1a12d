"""Looking at the locks without taking them: for `doctor`, `hold --status` and `hold --path`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zcopy.locks.holders import Use, look
from zcopy.locks.lockfile import open_lock, peek_lock
from zcopy.locks.names import resolve
from zcopy.locks.paths import known_devices, lock_folder, place
from zcopy.locks.settings import LockSettings


@dataclass(frozen=True, slots=True)
class LockReport:
    """One device's lock file and its use; no holder means free, or held where /proc does not show it."""

    device: str
    path: Path
    use: Use


def lock_path(device: str, settings: LockSettings) -> Path:
    """The lock file of a device. A missing one is made, mode 0666, so that every user's flock(1) can open it.

    Raises UsageError or RefusedError as `acquire` does.
    """
    (name,) = resolve([device], settings.aliases)
    spot = place(name, settings, lock_folder(settings))
    with contextlib.closing(open_lock(spot)):
        return spot.path


def lock_reports(settings: LockSettings, devices: Iterable[str] | None = None) -> tuple[LockReport, ...]:
    """The state of these devices' locks, or of every one that has a lock file; nothing is made or locked."""
    folder = lock_folder(settings, create=False)
    names = known_devices(settings, folder) if devices is None else resolve(devices, settings.aliases)
    reports = []
    for name in names:
        spot = place(name, settings, folder)
        lock = peek_lock(spot)
        if lock is None:
            reports.append(LockReport(name, spot.path, Use(None)))
            continue
        with contextlib.closing(lock):
            reports.append(LockReport(name, spot.path, look(lock)))
    return tuple(reports)
