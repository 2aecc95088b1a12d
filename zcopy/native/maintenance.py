"""Cache maintenance: what keeps memory in step between the CPU and the device behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from zcopy.native._zc import lib
from zcopy.native.calls import check


class Maintenance(ABC):
    """How CPU access to a region is opened and closed. Owned by the region, which closes it before its mapping."""

    ranged: ClassVar[bool]  # whether a call is for the bytes it names, or always for the whole buffer

    @abstractmethod
    def sync(self, *, end: bool, read: bool, write: bool, offset: int, size: int) -> int:
        """One call, and what it took in ns. The bytes lie within the buffer: the region has seen to that.

        `end` False: the CPU will now read or write them; True: it has, and the device may. Raises NativeError.
        """

    def close(self) -> None:
        """Gives back what the calls needed (a device's descriptor, a handle). Idempotent."""
        return


class Unneeded(Maintenance):
    """Memory that no device works on, or one that snoops the caches."""

    ranged = False

    def sync(self, *, end: bool, read: bool, write: bool, offset: int, size: int) -> int:
        return 0


class DmaBufSync(Maintenance):
    """DMA_BUF_IOCTL_SYNC (linux/dma-buf.h): always the whole buffer."""

    ranged = False

    def __init__(self, fd: int) -> None:
        """`fd` stays the region's."""
        self._fd = fd

    def sync(self, *, end: bool, read: bool, write: bool, offset: int, size: int) -> int:
        flags = (lib.ZC_SYNC_END if end else 0) | (lib.ZC_SYNC_READ if read else 0)
        return check(lib.zc_timed_sync(self._fd, flags | (lib.ZC_SYNC_WRITE if write else 0)))
