"""What the cases of one size share: two sources, and for each kind of memory its region and a second mapping of it."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from zcopy.buffers.base import Buffer
from zcopy.model import Json
from zcopy.native.fill import MEMSET_BYTE, read_through, touch
from zcopy.native.region import Region
from zcopy.stats import median

_READS: Final = 5
_CACHED, _WRITE_COMBINED = 0.5, 0.25  # read rate over cached memory's: from here on cached; below, not


@dataclass
class Target:
    """A kind's region, touched before anything is timed, and what making it took."""

    kind: Buffer
    region: Region
    check: Region  # another mapping of the same memory where there can be one
    map_ns: int
    touch_ns: int
    faults: int
    proof: dict[str, Json] = field(default_factory=dict)
    read_ns: int = 0


class Sources:
    """Two sources of one size with different bytes."""

    def __init__(self, size: int, seed: int) -> None:
        import numpy as np

        self._owned = ExitStack()
        self.size = size
        self.regions = [self._owned.enter_context(Region(-1, size)) for _ in range(2)]
        draw = np.random.default_rng(random.Random(seed).getrandbits(64))
        for region in self.regions:
            np.frombuffer(region.view(), np.uint8)[:] = draw.integers(0, 256, region.size, np.uint8)

    def close(self) -> None:
        self._owned.close()


def make_target(kind: Buffer, size: int, ticks: Any) -> Target:
    """Allocates, touches and proves a region. Raises RefusedError, MeasurementError, NativeError."""
    began = ticks()
    region = kind.allocate(kind.room(size), "zcopy-fill")
    map_ns = ticks() - began
    try:
        proof = dict(kind.proof(region))
        region.begin(write=True)
        touch_ns, faults = touch(region, size)
        region.end(write=True)
        check = region
        if region.fd >= 0:
            check = Region.owning(os.dup(region.fd), region.size, dmabuf=region.dmabuf)
        return Target(kind, region, check, map_ns, touch_ns, faults, proof)
    except BaseException:
        region.close()
        raise


def close_target(target: Target) -> None:
    """Gives the memory back. Idempotent."""
    if target.check is not target.region:
        target.check.close()
    target.region.close()


def wrong_byte(target: Target, source: Region, size: int, constant: bool) -> int | None:
    """The first byte of the other mapping that is not the source's (or the constant), or None."""
    import numpy as np

    target.check.begin()
    try:
        seen = np.frombuffer(target.check.view()[:size], np.uint8)
        expected = np.uint8(MEMSET_BYTE) if constant else np.frombuffer(source.view()[:size], np.uint8)
        same = seen == expected
        return None if same.all() else int(np.argmin(same))
    finally:
        target.check.end()


def read_rate_ns(region: Region, size: int) -> int:
    """The median of a few reads through a region, an untimed one before them."""
    region.begin()
    try:
        read_through(region, size)
        return median([read_through(region, size) for _ in range(_READS)])
    finally:
        region.end()


def caching(read_ns: int, cached_ns: int) -> str:
    """How a mapping reads against cached memory of the same size in the same run.

    Uncached and write-combine mappings both read slowly, since every load goes to memory; which of the two it is shows
    in the rate of writing. "not cached" leaves that open.
    """
    share = cached_ns / read_ns if read_ns else 1.0
    if share >= _CACHED:
        return "cached"
    return "not cached" if share < _WRITE_COMBINED else "unclear"
