"""Sync policies: which calls open and close CPU access around a fill (linux/dma-buf.h, or a driver's own ones)."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from zcopy.errors import MeasurementError, RefusedError
from zcopy.native.calls import NativeError
from zcopy.native.fill import Span
from zcopy.native.flush import flush, flushers
from zcopy.native.region import Region
from zcopy.probes.fill.params import FLUSH

# vgem's fences, the only ones with a deadline of their own, end after 10 s; a GPU is reset within that.
FENCE_DEADLINE_MS: Final = 15_000


class Step(NamedTuple):
    """One call: its end of a pair and its direction."""

    end: bool
    read: bool
    write: bool


class Policy(NamedTuple):
    before: tuple[Step, ...]
    after: tuple[Step, ...]
    by_line: bool = False  # write the caches back by the CPU's own instruction, after the fill


class Spent(NamedTuple):
    """What calls took, in ns: waiting for the device's own work, and the maintenance itself."""

    fence: int = 0
    sync: int = 0

    def plus(self, other: Spent) -> Spent:
        return Spent(self.fence + other.fence, self.sync + other.sync)


_OPEN_W, _CLOSE_W = Step(False, False, True), Step(True, False, True)
_OPEN_RW, _CLOSE_RW = Step(False, True, True), Step(True, True, True)

POLICIES: Final[Mapping[str, Policy]] = {
    "none": Policy((), ()),
    # What a fill needs: the CPU only writes, so only towards the device is anything to be done.
    "clean": Policy((_OPEN_W,), (_CLOSE_W,)),
    # What is paid where every access is bracketed as reading and writing, and then synced to the device once more.
    "full": Policy((_OPEN_RW,), (_CLOSE_RW, _OPEN_W, _CLOSE_W)),
    # What libraries do for devices that do not snoop, where the driver leaves it to them.
    FLUSH: Policy((), (), by_line=True),
}


def flushing(declared: str | None) -> str:
    """The instruction that policy `flush` takes. Raises RefusedError where there is nothing to flush, or none."""
    if declared in ("write-combine", "uncached"):
        raise RefusedError(f"its mapping is {declared}: no line of it is in a cache")
    ways = flushers()
    if not ways:
        raise RefusedError("this CPU cannot write its caches back by line from user space")
    return ways[0]


def take(region: Region, steps: Iterable[Step], span: Span) -> Spent:
    """Makes the calls for the bytes of `span`, each opening one after the device's fences. Raises NativeError.

    DMA_BUF_IOCTL_SYNC would wait for the fences itself, after it has invalidated the caches: its time would then hold
    the device's work, and what the CPU reads could be older than what the device wrote last.
    """
    spent = Spent()
    for step in steps:
        fence = 0 if step.end else _wait(region, step)
        sync = region.sync(end=step.end, read=step.read, write=step.write, offset=span.offset, size=span.size)
        spent = spent.plus(Spent(fence, sync))
    return spent


def close(region: Region, policy: Policy, span: Span) -> Spent:
    """What a policy does once the bytes of `span` are filled. Raises NativeError, MeasurementError."""
    spent = take(region, policy.after, span)
    return spent.plus(Spent(sync=flush(region, span))) if policy.by_line else spent


def _wait(region: Region, step: Step) -> int:
    try:
        return region.wait(write=step.write, timeout_ms=FENCE_DEADLINE_MS)
    except NativeError as error:
        if error.errno == errno.ETIMEDOUT:
            raise MeasurementError(
                f"the device is not done with the buffer after {FENCE_DEADLINE_MS // 1000} s: its fence never signalled"
            ) from error
        raise
