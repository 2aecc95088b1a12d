"""The first write into a region by a process that has just mapped it: by page kind, with its page faults.

python tests/bench/first_write.py [--mib N] [--rounds N] [--cells N]

First a touch of every page of a whole region (what the kernel does), then a provider's rows in a real handoff.
"""

from __future__ import annotations

import argparse
import mmap
import os
import resource
import sys
import time

import numpy as np
from gates import Gate, disquiet, handoff, interleaved, spread, table, verdict

from zcopy.buffers.base import Buffer
from zcopy.buffers.memfd import Memfd, MemfdHuge, MemfdThp
from zcopy.host import Host
from zcopy.model import Row
from zcopy.native import _zc
from zcopy.native.region import Region
from zcopy.native.rows import K, Layout, Tensor
from zcopy.probes.handoff.advice import first_write_ns
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, lengths
from zcopy.stats import median
from zcopy.units import MIB

PAGE = 4096


class Touch:
    """Touches every page of a region through a mapping made for this sample, and keeps the faults it took."""

    def __init__(self, region: Region, *, populated: bool, preread: bool = False) -> None:
        self._region, self._populated, self._preread = region, populated, preread
        cells = region.size // PAGE
        self._layout = Layout([Tensor(0, PAGE, 0, PAGE, 0, 0, K)], cells, region.size, [(0, cells)])
        self.faults: list[int] = []

    def __call__(self) -> int:
        if not self._populated:  # back to holes, without giving the object up
            with mmap.mmap(os.dup(self._region.fd), self._region.size) as everything:
                everything.madvise(mmap.MADV_REMOVE)
        with Region(os.dup(self._region.fd), self._region.size) as mapped:
            pages = np.frombuffer(mapped.view(), dtype=np.uint8)[::PAGE]
            before, started = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt, time.monotonic_ns()
            if self._preread:
                _zc.lib.zc_rows_preread(mapped.pointer, self._layout.raw)
            pages[:] = 1
            took = time.monotonic_ns() - started
            self.faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
        return took


def regions(size: int) -> dict[str, Touch]:
    """Every kind that this box has; their memory is allocated and touched once, before anything is timed."""
    fresh, populated = Memfd().allocate(size, "bench"), Memfd().allocate(size, "bench")
    populated.populate()
    found = {
        "memfd, fresh": Touch(fresh, populated=False),
        "memfd, populated": Touch(populated, populated=True),
        "memfd, populated and pre-read": Touch(populated, populated=True, preread=True),
    }
    for kind in huge_kinds(size):
        region = kind.allocate(size, "bench")
        region.populate()
        found[kind.name] = Touch(region, populated=True)
    return found


def huge_kinds(size: int) -> list[Buffer]:
    """The kinds with 2 MiB pages that this box has room for; of the others it is told why not."""
    host, found = Host.read(), []
    for kind in (MemfdThp(), MemfdHuge()):
        lack, limit = kind.unavailable(host), kind.limit(host)
        if lack is None and (limit is None or limit[0] >= size):
            found.append(kind)
        else:
            print(f"note: no {kind.name}: {lack or 'the pool is too small'}", file=sys.stderr)
    return found


def touching(size: int, rounds: int) -> list[Gate]:
    variants = regions(size)
    for touch in variants.values():
        touch()
    samples = interleaved(variants, rounds)
    mid = {name: median(found) for name, found in samples.items()}
    table(
        [f"touching {size // MIB} MiB", "median ms", "least", "most", "faults", "fresh over it"],
        [
            [
                name,
                *spread(found, 1e6),
                f"{median(variants[name].faults):,}",
                f"{mid['memfd, fresh'] / mid[name]:.1f}",
            ]
            for name, found in samples.items()
        ],
    )
    preread, pages = "memfd, populated and pre-read", size // PAGE
    more_windows = median(variants[preread].faults) - pages // 16
    more_pages = median(variants["memfd, fresh"].faults) - pages
    ways = [way for way in (preread, "memfd-thp", "memfd-huge") if way in mid]
    return [
        Gate("populated, over pre-read", mid["memfd, populated"] / mid[preread], 4),
        *(Gate(f"fresh, over {way}", mid["memfd, fresh"] / mid[way], 5) for way in ways),
        Gate("faults beyond one per 64 KiB, pre-read", more_windows, 12, at_most=True),
        Gate("faults beyond one per page, fresh", more_pages, 12, at_most=True),
    ]


def named(row: Row) -> str:
    populate = {"none": "", "map": ", populated", "prefault": ", populated and pre-read"}[
        str(row.case["populate"])
    ]
    return f"{row.case['buffer']}{populate}"


def writing(cells: int, rounds: int) -> list[Gate]:
    """Every sample in a new region: what a fresh region's request pays for its rows."""
    cache = Cache(PRESETS["qwen3-4b"], TYPES["f16"], TYPES["f16"])
    (length,) = lengths((cells,), ())
    huge = tuple(kind.name for kind in huge_kinds(length.ctx * cache.cell_bytes))
    asked = HandoffParams(
        cache, (length,), routes=("shared",), regions=("fresh",), reps=rounds, buffers=("memfd", *huge),
        populate=("none", "map", "prefault"),
    )  # fmt: skip
    found = {named(row): row for row in handoff(asked)}
    first = {name: first_write_ns(row) or 0 for name, row in found.items()}
    fresh = first["memfd"]
    table(
        [f"writing {cells} cells", "median ms", "warm write", "faults", "fresh over it"],
        [
            [name, f"{first[name] / 1e6:,.2f}", f"{row.median_ns['write'] / 1e6:,.2f}", f"{row.extra['faults']:,}",
             f"{fresh / first[name]:.1f}"]
            for name, row in found.items()
        ],
    )  # fmt: skip
    # Huge pages too must be there first: zeroing 2 MiB takes as long as zeroing 512 small ones.
    ways = (
        "memfd, populated and pre-read",
        *(f"{way}, populated" if f"{way}, populated" in first else way for way in huge),
    )
    return [Gate(f"rows: fresh, over {way}", fresh / first[way], 5) for way in ways]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=648)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cells", type=int, default=4105)
    options = parser.parse_args()
    disquiet()
    return verdict(touching(options.mib * MIB, options.rounds) + writing(options.cells, options.rounds))


if __name__ == "__main__":
    sys.exit(main())
