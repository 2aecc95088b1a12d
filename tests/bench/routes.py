"""The shared route's total against the file route's, overwriting in place, on a disk and in memory.

python tests/bench/routes.py [--cells LIST] [--reps N] [--disk DIR] [--memory DIR]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from gates import Gate, disquiet, handoff, spread, table, verdict

from zcopy.model import Row
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, lengths
from zcopy.stats import median

LEAST = 300


def described(row: Row) -> str:
    parts = [row.case["cells"], row.case["route"], row.case["region"], row.extra.get("filesystem")]
    return " ".join(str(each) for each in parts if each)


def gates_of(rows: list[Row]) -> Iterator[Gate]:
    for cells in dict.fromkeys(row.case["cells"] for row in rows):
        mine = [row for row in rows if row.case["cells"] == cells]
        shared = next(row for row in mine if (row.case["route"], row.case["region"]) == ("shared", "reused"))
        yield Gate(f"{cells} cells: bytes copied by the shared route", shared.bytes_copied, 0, at_most=True)
        for row in mine:
            if (row.case["route"], row.case["region"]) == ("file", "reused"):
                ratio = median(row.ns["total"]) / median(shared.ns["total"])
                yield Gate(f"{cells} cells: file on {row.extra['filesystem']}, over shared", ratio, LEAST)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default="4105,16399")
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--disk", default=str(Path.home() / ".cache/zcopy"))
    parser.add_argument("--memory", default="/dev/shm")
    options = parser.parse_args()
    disquiet()
    cache = Cache(PRESETS["qwen3-4b"], TYPES["f16"], TYPES["f16"])
    cells = tuple(int(each) for each in options.cells.split(","))
    folders = (options.disk, options.memory)
    rows = handoff(HandoffParams(cache, lengths(cells, ()), reps=options.reps, state_dirs=folders))
    table(
        ["total of a request", "median ms", "least", "most", "bytes copied"],
        [[described(row), *spread(row.ns["total"], 1e6), f"{row.bytes_copied:,}"] for row in rows],
    )
    return verdict(list(gates_of(rows)))


if __name__ == "__main__":
    sys.exit(main())
