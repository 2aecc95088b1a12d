"""Sync policies: which DMA_BUF_IOCTL_SYNC calls stand before and after a fill (Documentation/driver-api/dma-buf)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from zcopy.native.region import Region


class Step(NamedTuple):
    """One call: its end of a pair and its direction."""

    end: bool
    read: bool
    write: bool


class Policy(NamedTuple):
    before: tuple[Step, ...]
    after: tuple[Step, ...]


_OPEN_W, _CLOSE_W = Step(False, False, True), Step(True, False, True)
_OPEN_RW, _CLOSE_RW = Step(False, True, True), Step(True, True, True)

POLICIES: Final[Mapping[str, Policy]] = {
    "none": Policy((), ()),
    # What a fill needs: the CPU only writes, so only towards the device is anything to be done.
    "clean": Policy((_OPEN_W,), (_CLOSE_W,)),
    # What is paid where every access is bracketed as reading and writing, and then synced to the device once more.
    "full": Policy((_OPEN_RW,), (_CLOSE_RW, _OPEN_W, _CLOSE_W)),
}


def take(region: Region, steps: tuple[Step, ...]) -> int:
    """Makes the calls; what they took together, in ns. Raises NativeError."""
    return sum(region.sync(end=step.end, read=step.read, write=step.write) for step in steps)
