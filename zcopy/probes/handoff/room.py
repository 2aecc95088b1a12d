"""What a variant needs and whether this box has it: what does not fit is a skipped row, before the kernel is asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from zcopy.buffers.base import Buffer
from zcopy.host import Host
from zcopy.native.rows import Layout
from zcopy.probes.handoff.params import HandoffParams, Length, Variant
from zcopy.probes.handoff.scatter import contiguous
from zcopy.units import size_text


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes that a variant takes: its own, and what the variants of its length share (cache and packed source)."""

    memory: int = 0
    cache: int = 0
    source: int = 0
    disk: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The byte counts of one length."""

    region: int
    payload: int
    state: int

    @staticmethod
    def of(params: HandoffParams, length: Length) -> Sizes:
        tensors, region = params.cache.tensors(length.ctx)
        layout = Layout(tensors, length.ctx, region, contiguous(length.cells))
        return Sizes(region, layout.payload, layout.state_bytes)


def needs(variant: Variant, sizes: Sizes, first_cache: bool, on_memory: bool) -> Needs:
    """`first_cache`: no other variant has made the cache yet; `on_memory`: the state file lies on a tmpfs."""
    if variant.route == "shared":
        own = variant.region == "fresh" or not first_cache
        return Needs(memory=sizes.region) if own else Needs(cache=sizes.region)
    state = sizes.state if variant.route == "file" else 0
    return Needs(
        memory=state if on_memory else 0,
        cache=sizes.region,
        source=sizes.payload,
        disk=0 if on_memory else state,
    )


class Room:
    """What is left of the box while variants are admitted one after another."""

    def __init__(self, host: Host) -> None:
        self._left, self._limit = host.room()
        self._cache = self._source = 0
        self.memory = 0
        self.disk = 0

    def lack(self, variant: Variant, need: Needs, kind: Buffer, host: Host, largest: int) -> str | None:
        """Why the variant does not fit, with the figures; None when it does, and then it is counted."""
        if (limit := kind.limit(host)) and largest > limit[0]:
            return f"needs {size_text(largest)} of {kind.name}: {limit[1]} ({size_text(limit[0])})"
        more = need.memory + max(0, need.cache - self._cache) + max(0, need.source - self._source)
        if more > self._left:
            return f"needs {size_text(more)} more memory, {size_text(self._left)} are left ({self._limit})"
        if variant.state_dir and need.disk > (free := free_bytes(Path(variant.state_dir))):
            return f"needs {size_text(need.disk)} in {variant.state_dir}, {size_text(free)} are free"
        self._left -= more
        self.memory += more
        self.disk = max(self.disk, need.disk)
        self._cache, self._source = max(self._cache, need.cache), max(self._source, need.source)
        return None


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write below `folder`, or below its nearest ancestor that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize
