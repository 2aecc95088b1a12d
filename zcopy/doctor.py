"""What `zcopy doctor` finds out: the box, what of it zcopy can use and why not, and where zcopy keeps things.

It looks, and tries one small buffer of each kind. It measures nothing, takes no lock, and makes neither lock
files nor a history.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zcopy.errors import ZcopyError
from zcopy.host import Device, Driver, Host, Users, filesystem
from zcopy.host.modules import installed_build_id
from zcopy.locks import LockReport, LockSettings, lock_folder, lock_reports
from zcopy.model import Json, Warning_

if TYPE_CHECKING:
    from zcopy.buffers.base import Buffer
    from zcopy.history.location import HistorySettings

SCHEMA: Final = "zcopy.doctor/1"

# Drivers that offer buffers or import them, looked for even where no device of theirs is.
DRIVERS: Final = (
    "amdgpu", "amdxdna", "cma_heap", "i915", "intel_vpu", "panfrost", "panthor", "rknpu", "rocket",
    "system_heap", "udmabuf", "vgem", "virtio_gpu", "vivid", "xe",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KindFinding:
    """A kind of buffer: why it cannot be had here, or else the kind's own limit (bytes, its name)."""

    name: str
    summary: str
    reason: str | None
    limit: tuple[int, str] | None

    def document(self) -> dict[str, Json]:
        size, name = self.limit or (None, None)
        return {
            "buffer": self.name,
            "summary": self.summary,
            "available": self.reason is None,
            "reason": self.reason,
            "limit_bytes": size,
            "limit": name,
        }


@dataclass(frozen=True, slots=True)
class DriverFinding:
    """A driver in the kernel, and the build-id of its file on disk where that can be read."""

    driver: Driver
    installed: str | None

    @property
    def stale(self) -> bool:
        """Whether the file on disk is known to be another build than the one that runs."""
        return None not in (self.driver.build_id, self.installed) and self.driver.build_id != self.installed

    def document(self) -> dict[str, Json]:
        return {**self.driver.document(), "installed_build_id": self.installed, "stale": self.stale}


@dataclass(frozen=True, slots=True)
class LockFinding:
    """The lock folder (None where there is none to use, for the reason in `error`) and the locks in it."""

    folder: Path | None
    caution: str | None
    error: str | None
    reports: tuple[LockReport, ...]

    def document(self, now_ns: int) -> dict[str, Json]:
        return {
            "folder": str(self.folder) if self.folder else None,
            "caution": self.caution,
            "error": self.error,
            "devices": [
                {"device": each.device, "path": str(each.path), "holder": holder_text(each, now_ns)}
                for each in self.reports
            ],
        }


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """The history's file. `schema` and `runs` are None where it cannot be read, for the reason in `error`."""

    path: Path
    exists: bool
    writable: bool
    filesystem: str
    schema: int | None
    runs: int | None
    error: str | None

    def document(self) -> dict[str, Json]:
        return {
            "path": str(self.path),
            "exists": self.exists,
            "writable": self.writable,
            "filesystem": self.filesystem,
            "schema": self.schema,
            "runs": self.runs,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything `doctor` found. `taken_ns` is when, in ns since the epoch; `version` zcopy's own.

    `users` are the processes that hold a GPU or NPU open.
    """

    version: str
    taken_ns: int
    host: Host
    kinds: tuple[KindFinding, ...]
    drivers: tuple[DriverFinding, ...]
    locks: LockFinding
    store: StoreFinding
    users: Users
    warnings: tuple[Warning_, ...]

    def document(self) -> dict[str, Json]:
        """The `zcopy.doctor/1` document (docs/zcopy.doctor.schema.json)."""
        limit, limited_by = self.host.room()
        return {
            "schema": SCHEMA,
            "version": self.version,
            "taken_ns": self.taken_ns,
            "host": self.host.document(),
            "room": {"bytes": limit, "limit": limited_by},
            "buffers": [kind.document() for kind in self.kinds],
            "drivers": [driver.document() for driver in self.drivers],
            "access": [self._access(each) for each in self.host.devices],
            "locks": self.locks.document(self.taken_ns),
            "store": self.store.document(),
            "warnings": [warning.document() for warning in self.warnings],
        }

    def _access(self, device: Device) -> dict[str, Json]:
        users = self.users.of([device.path])
        return {
            "path": device.path,
            "usable": device.usable,
            "remedy": device.remedy,
            "users": [user.document() for user in users],
        }


def diagnose(
    host: Host,
    kinds: Iterable[Buffer],
    locks: LockSettings,
    history: HistorySettings,
    *,
    version: str,
    now_ns: int,
) -> Diagnosis:
    """Look at everything. What cannot be looked at becomes a finding, not an error."""
    drivers = tuple(_drivers(host))
    lock_finding = _locks(locks)
    store, store_warnings = _store(history)
    return Diagnosis(
        version=version,
        taken_ns=now_ns,
        host=host,
        kinds=tuple(_kind(kind, host) for kind in kinds),
        drivers=drivers,
        locks=lock_finding,
        store=store,
        users=host.users({each.lock for each in host.devices if each.lock}),
        warnings=(
            *host.quiet_warnings(),
            *_driver_warnings(drivers),
            *_device_warnings(host),
            *([Warning_("lock-folder", lock_finding.caution)] if lock_finding.caution else []),
            *store_warnings,
        ),
    )


def holder_text(report: LockReport, now_ns: int) -> str | None:
    """Who holds a lock and how many wait for it, or None when it is free."""
    holder, waiting = report.use.holder, len(report.use.waiting)
    if holder is None:
        return None
    return holder.text(now_ns) + (f", {waiting} waiting" if waiting else "")


def _kind(kind: Buffer, host: Host) -> KindFinding:
    reason = kind.unavailable(host)
    return KindFinding(kind.name, kind.summary, reason, kind.limit(host) if reason is None else None)


def _drivers(host: Host) -> Iterator[DriverFinding]:
    behind_devices = {driver.name: driver for driver in host.drivers}
    for name in sorted({*behind_devices, *DRIVERS}):
        driver = behind_devices.get(name) or host.driver(name)
        if driver is not None:
            yield DriverFinding(driver, _installed(host, driver))


def _installed(host: Host, driver: Driver) -> str | None:
    release = host.kernel.release
    return None if driver.built_in or not release else installed_build_id(host.root, release, driver.name)


def _driver_warnings(drivers: Sequence[DriverFinding]) -> Iterator[Warning_]:
    for each in drivers:
        if each.stale:
            name = each.driver.name
            text = f"driver {name}: the build that runs is not the one on disk: reload it or reboot"
            yield Warning_("driver-stale", text)


def _device_warnings(host: Host) -> Iterator[Warning_]:
    if host.of_kind("kfd") and not any(node.is_gpu for node in host.kfd):
        text = "/dev/kfd is there but its topology has no GPU: amdgpu is loaded and no GPU is bound to it"
        yield Warning_("kfd-without-gpu", text)


def _locks(settings: LockSettings) -> LockFinding:
    try:
        folder = lock_folder(settings, create=False)
        return LockFinding(folder.path, folder.caution, None, lock_reports(settings))
    except ZcopyError as error:
        return LockFinding(None, None, _line(error), ())


def _store(settings: HistorySettings) -> tuple[StoreFinding, tuple[Warning_, ...]]:
    # Late: sqlite3 is loaded by nobody who does not need the history.
    from zcopy.history.opening import open_readable
    from zcopy.history.schema import version_of
    from zcopy.history.store import Store

    schema = runs = error = None
    warnings: tuple[Warning_, ...] = ()
    try:
        opened = open_readable(settings)
        with Store(settings, opened) as store:
            schema = version_of(opened.db) if opened.file else None
            warnings = store.warnings
            runs = len(store.runs())
    except ZcopyError as refusal:
        error = _line(refusal)
    path = settings.db
    exists, writable = os.path.exists(path), _writable(path)  # noqa: PTH110 - Path.exists may raise
    return StoreFinding(path, exists, writable, filesystem(path), schema, runs, error), warnings


def _writable(path: Path) -> bool:
    """Whether the file can be written, or made where it is missing (with the folders above it)."""
    there = (each for each in (path, *path.parents) if os.path.exists(each))  # noqa: PTH110
    nearest = next(there, Path("/"))
    return os.access(nearest, os.W_OK, effective_ids=True)


def _line(error: ZcopyError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
