"""Device nodes: opening them, and saying in words why they cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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


def cannot_open(host: Host, kind: str, path: str, absent: str) -> str | None:
    """Why the device at `path` cannot be used: `absent`, or its owner, group and mode with what would help."""
    device = next((device for device in host.of_kind(kind) if device.path == path), None)
    if device is None:
        return absent
    if device.usable:
        return None
    node = device.node
    if node is None:
        return f"{path}: {device.remedy}"
    return f"{path} is {node.mode_text} {node.owner}:{node.group}: {device.remedy}"
