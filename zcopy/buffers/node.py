"""Device nodes: opening them, and saying in words why they cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zcopy.host.modules import has_module
from zcopy.native.calls import NativeError

if TYPE_CHECKING:
    from zcopy.host import Host


@contextmanager
def opened(path: str) -> Iterator[int]:
    """The node's descriptor for reading and writing, closed at the end. Raises NativeError."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise NativeError(error.errno, error.strerror) from error
    try:
        yield fd
    finally:
        os.close(fd)


def cannot_open(host: Host, kind: str, path: str, absent: Callable[[], str]) -> str | None:
    """Why the device at `path` cannot be used: `absent()`, or its owner, group and mode with what would help."""
    device = next((device for device in host.of_kind(kind) if device.path == path), None)
    if device is None:
        return absent()
    if device.usable:
        return None
    node = device.node
    if node is None:
        return f"{path}: {device.remedy}"
    return f"{path} is {node.mode_text} {node.owner}:{node.group}: {device.remedy}"


def locks(host: Host, path: str) -> tuple[str, ...]:
    """The lock of the GPU or NPU behind the node at `path`; none where there is no such hardware."""
    return tuple(device.lock for device in host.devices if device.path == path and device.lock)


def how_to_load(host: Host, module: str, option: str) -> str:
    """What brings a driver that is not in the running kernel: its module, or another kernel (`option` is Kconfig's).

    Many systems, and most containers, do not show which modules their kernel has.
    """
    there = has_module(host.root, host.kernel.release, module)
    if there is None:
        return f"the kernel needs {option} (where that is a module: as root, modprobe {module})"
    return f"as root, modprobe {module}" if there else f"this kernel was built without {module} ({option})"
