"""What the cases of one size share: two sources, and for each kind of memory its region and a second mapping of it."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from zcopy.buffers.base import Buffer
from zcopy.host import Host
from zcopy.model import Json
from zcopy.native.fill import MEMSET_BYTE, Span, touch
from zcopy.native.region import Region
from zcopy.probes.fill.caching import Rates


@dataclass
class Target:
    """A kind's region, touched before anything is timed, and what making it took."""

    kind: Buffer
    region: Region
    check: Region  # another mapping of the same memory where there can be one
    map_ns: int
    populate_ns: int | None  # None: its pages came with the first touch
    touch_ns: int
    faults: int
    proof: dict[str, Json] = field(default_factory=dict)
    declared: str | None = None  # how its driver maps it
    rates: Rates | None = None  # once classified

    def once(self) -> dict[str, tuple[int, ...]]:
        """The phases that were paid once, in ns."""
        populate = {} if self.populate_ns is None else {"populate": (self.populate_ns,)}
        return {"map": (self.map_ns,), **populate, "first_touch": (self.touch_ns,)}


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


def make_target(kind: Buffer, populate: str, size: int, host: Host, ticks: Any) -> Target:
    """Allocates, populates where asked, touches and proves a region.

    Raises RefusedError, MeasurementError, NativeError.
    """
    began = ticks()
    region = kind.allocate(kind.room(size), "zcopy-fill")
    map_ns = ticks() - began
    try:
        populate_ns = _populated(region, ticks) if populate == "prefault" else None
        proof = dict(kind.proof(region))
        region.begin(write=True)
        touch_ns, faults = touch(region, size)
        region.end(write=True)
        check = region
        if region.fd >= 0:
            check = Region.owning(os.dup(region.fd), region.size, dmabuf=region.dmabuf)
        return Target(kind, region, check, map_ns, populate_ns, touch_ns, faults, proof, kind.declared(host))
    except BaseException:
        region.close()
        raise


def _populated(region: Region, ticks: Any) -> int:
    began: int = ticks()
    region.populate()
    return int(ticks()) - began


def close_target(target: Target) -> None:
    """Gives the memory back. Idempotent."""
    if target.check is not target.region:
        target.check.close()
    target.region.close()


def wrong_byte(target: Target, source: Region, span: Span, constant: bool) -> int | None:
    """The first byte of `span` that is not the source's (or the constant) in the other mapping, or None."""
    import numpy as np

    target.check.begin()
    try:
        here = slice(span.offset, span.end)
        seen = np.frombuffer(target.check.view()[here], np.uint8)
        expected = np.uint8(MEMSET_BYTE) if constant else np.frombuffer(source.view()[here], np.uint8)
        same = seen == expected
        return None if same.all() else span.offset + int(np.argmin(same))
    finally:
        target.check.end()
