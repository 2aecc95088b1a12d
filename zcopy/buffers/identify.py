"""What the kernel says of a descriptor: the evidence behind every buffer label."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from zcopy.errors import MeasurementError
from zcopy.model import Json
from zcopy.native.calls import NativeError, failed
from zcopy.native.fds import filesystem_type, seals

# exp_name is the module's that registered the dma-buf operations: this one for all that use the DRM core's.
DRM_CORE = "drm"
_SEALS = {1: "seal", 2: "shrink", 4: "grow", 8: "write", 16: "future-write", 32: "exec"}  # linux/fcntl.h


def link(fd: int) -> str:
    """The target of /proc/self/fd/FD: ``/memfd:LABEL (deleted)``, ``/dmabuf:NAME`` …"""
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def fdinfo(fd: int) -> dict[str, str]:
    """The key: value lines of /proc/self/fdinfo/FD (a dma-buf's has size, count, exp_name).

    Raises MeasurementError where it cannot be read (the limit of open files).
    """
    path = Path(f"/proc/self/fdinfo/{fd}")
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        raise failed(str(path), error) from error
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def seal_names(fd: int) -> list[str]:
    """The seals of a memfd by name; empty where the file cannot be sealed."""
    try:
        bits = seals(fd)
    except NativeError:
        return []
    return [name for bit, name in _SEALS.items() if bits & bit]


def prove_memfd(fd: int, size: int, label: str, filesystem: int) -> Mapping[str, Json]:
    """A memfd of `size` bytes on that filesystem (magic), sealed against shrinking, or MeasurementError."""
    _require(fd >= 0, label, "it has no descriptor")
    found, names, magic = link(fd), seal_names(fd), filesystem_type(fd)
    _require(found.startswith("/memfd:"), label, f"its link is {found!r}")
    _require("shrink" in names and "grow" in names, label, f"its seals are {names}")
    _require(magic == filesystem, label, f"its filesystem is {magic:#x}")
    _require(os.fstat(fd).st_size >= size, label, "it is smaller than asked")
    return {"link": found, "seals": names, "filesystem": f"{magic:#x}"}


def prove_dmabuf(fd: int, size: int, label: str, exporter: str) -> Mapping[str, Json]:
    """A dma-buf of at least `size` bytes exported under that name, or MeasurementError."""
    _require(fd >= 0, label, "it has no descriptor")
    found, info = link(fd), fdinfo(fd)
    _require(found.startswith("/dmabuf:"), label, f"its link is {found!r}")
    name = info.get("exp_name", "")
    _require(name == exporter, label, f"the kernel calls its exporter {name!r}")
    # The kernel prints the size in decimal; fstat agrees since 5.3.
    real = int(info.get("size", "0"), 0)
    _require(real >= size, label, f"the kernel gives it {real} bytes")
    return {"link": found, "exp_name": name, "size": real, "inode": os.fstat(fd).st_ino}


def prove_drm(fd: int, size: int, label: str, driver: str) -> Mapping[str, Json]:
    """A dma-buf of at least `size` bytes of that DRM driver, which leaves it to the DRM core or exports it itself.

    Raises MeasurementError.
    """
    name = fdinfo(fd).get("exp_name", "")
    return prove_dmabuf(fd, size, label, name if name == driver else DRM_CORE)


def _require(holds: bool, label: str, fault: str) -> None:
    if not holds:
        raise MeasurementError(f"{label}: the kernel does not confirm this label: {fault}")
