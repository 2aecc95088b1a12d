"""Memory: how much there is, what this process may still have of it, and which limit says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zcopy.host.cgroup import MemoryLimit, memory_limits
from zcopy.host.files import Root, integer, pairs
from zcopy.host.hugepages import HugePool, Thp, read_pools, read_thp
from zcopy.model import Json
from zcopy.units import MIB

# Of every limit a part is kept back: page tables, the interpreter and the neighbours need memory as well, and
# a dma-heap does not fail at the limit but wakes the OOM killer.
_KEPT_PART: Final = 16
_KEPT_LEAST: Final = 16 * MIB
_KEPT_MOST: Final = 512 * MIB
_STRICT: Final = 2  # vm.overcommit_memory: what is promised may not exceed CommitLimit


@dataclass(frozen=True, slots=True)
class Memory:
    """A snapshot, in bytes. `memlock` is RLIMIT_MEMLOCK, None when unlimited; other Nones are unknown."""

    total: int | None
    available: int | None
    swap_total: int | None
    swap_free: int | None
    overcommit: int | None
    commit_limit: int | None
    committed: int | None
    memlock: int | None
    pools: tuple[HugePool, ...]
    thp: Thp
    limits: tuple[MemoryLimit, ...]

    def pool(self, size: int) -> HugePool | None:
        """The hugetlb pool of pages of `size` bytes."""
        return next((pool for pool in self.pools if pool.size == size), None)

    def room(self) -> tuple[int, str]:
        """Bytes of ordinary pages that may be allocated now, and the name of what limits them.

        The smallest of MemAvailable, every cgroup's headroom and (with strict overcommit) what may still be
        promised, less a sixteenth of it (16 to 512 MiB) that is kept back.
        """
        ceiling, name = min(self._ceilings())
        kept = min(max(ceiling // _KEPT_PART, _KEPT_LEAST), _KEPT_MOST)
        return max(ceiling - kept, 0), name

    def _ceilings(self) -> Iterator[tuple[int, str]]:
        known = self.available is not None
        yield self.available or 0, "MemAvailable" if known else "MemAvailable, which cannot be read"
        yield from ((limit.headroom, limit.file) for limit in self.limits)
        if self.overcommit == _STRICT and self.commit_limit is not None:
            yield max(self.commit_limit - (self.committed or 0), 0), "CommitLimit (vm.overcommit_memory=2)"

    def document(self) -> dict[str, Json]:
        return {
            "total_bytes": self.total,
            "available_bytes": self.available,
            "swap_total_bytes": self.swap_total,
            "swap_free_bytes": self.swap_free,
            "overcommit": self.overcommit,
            "memlock_bytes": self.memlock,
            "hugepages": [pool.document() for pool in self.pools],
            "thp": self.thp.document(),
            "cgroup": [limit.document() for limit in self.limits],
        }


def read_memory(root: Root) -> Memory:
    """The memory facts below `root`, as they are now."""
    meminfo = pairs(root.lines("proc/meminfo"))
    return Memory(
        total=_kib(meminfo.get("MemTotal")),
        available=_kib(meminfo.get("MemAvailable")),
        swap_total=_kib(meminfo.get("SwapTotal")),
        swap_free=_kib(meminfo.get("SwapFree")),
        overcommit=root.number("proc/sys/vm/overcommit_memory"),
        commit_limit=_kib(meminfo.get("CommitLimit")),
        committed=_kib(meminfo.get("Committed_AS")),
        memlock=_memlock(root.text("proc/self/limits") or ""),
        pools=read_pools(root),
        thp=read_thp(root),
        limits=memory_limits(root),
    )


def _kib(text: str | None) -> int | None:
    number = integer(text.removesuffix("kB").strip()) if text else None
    return number << 10 if number is not None and number >= 0 else None


def _memlock(limits: str) -> int | None:
    match = re.search(r"^Max locked memory\s+(\d{1,19})\s", limits, re.MULTILINE)
    return int(match[1]) if match else None
