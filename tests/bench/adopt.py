"""Adopting cells: the whole checked bookkeeping, on a warm table and inside a handoff.

python tests/bench/adopt.py [--rounds N] [--reps N]    (the handoff takes 6 GiB of memory; --warm leaves it out)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from gates import Gate, disquiet, handoff, interleaved, spread, table, verdict

from zcopy.native import rows
from zcopy.native.cells import Adoption, CellTable
from zcopy.probes.handoff import scatter
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, lengths
from zcopy.stats import median

LENGTHS = {307: 4608, 16399: 20480}


def adopting(cells: int, ctx: int, scattered: bool) -> Callable[[], int]:
    """One adoption timed after an untimed one of the same kind: the table and the caches are warm."""
    runs = scatter.scattered(cells, ctx, 1) if scattered else scatter.contiguous(cells)
    cell_table = CellTable(ctx)
    if occupied := scatter.between(runs):
        cell_table.adopt(Adoption(range(len(occupied)), [scatter.OTHER_SEQUENCE], cells=occupied))
    cell_table.reserve(scatter.SEQUENCE, cells)
    where = scatter.cells_of(runs) if scattered else None
    what = Adoption(rows.positions(cells), [scatter.SEQUENCE], cells=where)

    def once() -> int:
        took = cell_table.adopt(what)
        cell_table.remove(scatter.SEQUENCE)
        return took

    def timed() -> int:
        once()
        return once()

    return timed


def warm(rounds: int) -> list[Gate]:
    variants = {
        f"{cells} {how}": adopting(cells, ctx, how == "scattered")
        for cells, ctx in LENGTHS.items()
        for how in ("contiguous", "scattered")
    }
    samples = interleaved(variants, rounds)
    per_cell = {name: median(found) / int(name.split()[0]) for name, found in samples.items()}
    table(
        ["warm table", "median us", "least", "most", "ns per cell"],
        [[name, *spread(found, 1e3), f"{per_cell[name]:.2f}"] for name, found in samples.items()],
    )
    return [
        Gate("contiguous, 16399 cells", per_cell["16399 contiguous"], 4, at_most=True, unit=" ns/cell"),
        Gate("scattered, 16399 cells", per_cell["16399 scattered"], 8, at_most=True, unit=" ns/cell"),
        Gate(
            "per cell, 16399 over 307",
            per_cell["16399 contiguous"] / per_cell["307 contiguous"],
            1.5,
            at_most=True,
        ),
    ]


def inside(reps: int) -> list[Gate]:
    """The caches have just been used for the rows of the prompt."""
    cache = Cache(PRESETS["qwen3-4b"], TYPES["f16"], TYPES["f16"])
    asked = HandoffParams(
        cache, lengths(tuple(LENGTHS), ()), routes=("shared",), regions=("reused",), reps=reps
    )
    found = {int(str(row.case["cells"])): row.ns["adopt"] for row in handoff(asked)}
    per_cell = {cells: median(samples) / cells for cells, samples in found.items()}
    table(
        ["in a handoff", "median us", "least", "most", "ns per cell"],
        [[str(cells), *spread(samples, 1e3), f"{per_cell[cells]:.2f}"] for cells, samples in found.items()],
    )
    return [
        Gate("in a handoff, 16399 cells", per_cell[16399], 7, at_most=True, unit=" ns/cell"),
        Gate("in a handoff, per cell, 16399 over 307", per_cell[16399] / per_cell[307], 1.5, at_most=True),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--reps", type=int, default=9)
    parser.add_argument("--warm", action="store_true", help="only the warm table")
    options = parser.parse_args()
    disquiet()
    gates = warm(options.rounds)
    return verdict(gates if options.warm else gates + inside(options.reps))


if __name__ == "__main__":
    sys.exit(main())
