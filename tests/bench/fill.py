"""Filling memory: `auto` against every way it may take, the harness's own time, the first touch, and other programs.

python tests/bench/fill.py [--most SIZE] [--reps N]

Each size is one interleaved run of the probe. mbw and tinymembench are run in the same session where they are there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time

from gates import Gate, disquiet, interleaved, table, verdict

from zcopy.host import Host
from zcopy.model import Outcome, Row
from zcopy.native.fill import Span, fill, find_mover
from zcopy.native.region import Region
from zcopy.probes.base import Context
from zcopy.probes.fill.params import FillParams
from zcopy.probes.fill.probe import FillProbe
from zcopy.stats import median
from zcopy.units import GIB, KIB, MIB, parse_size, size_text

SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB)
WAYS = ("memcpy", "nt", "movsb")
PEER_SIZE = 64 * MIB
# What other programs print of a copy, in MB/s or MiB/s.
MBW = (re.compile(r"AVG\s+Method: (?:MEMCPY|MCBLOCK).*Copy: ([0-9.]+) MiB/s"), 2**20)
TINYMEMBENCH = (re.compile(r"^ (?:standard memcpy|.*copy.*?)\s*:\s+([0-9.]+) MB/s", re.MULTILINE), 10**6)


def measured(**params: object) -> list[Row]:
    context = Context(Host.read(), time.monotonic_ns, lambda *_: None, lambda _: None, dict(os.environ))
    rows = list(FillProbe(FillParams(**params)).measure(context))  # type: ignore[arg-type]
    return [row for row in rows if row.outcome is Outcome.OK]


def automatic(most: int, reps: int) -> tuple[list[Gate], list[list[str]], float]:
    """`auto` against the best of the ways, at every size; and its rate at PEER_SIZE, in bytes per second."""
    gates, lines, rate = [], [], 0.0
    for size in (size for size in SIZES if size <= most):
        rows = measured(buffers=("anon",), sizes=(size,), methods=(*WAYS, "auto"), reps=reps)
        ns = {str(row.case["method"]): median(row.ns["fill"]) for row in rows}
        best = min(WAYS, key=lambda way: ns.get(way, sys.maxsize))
        took = next(str(row.extra["mover"]) for row in rows if row.case["method"] == "auto")
        gates.append(Gate(f"auto over the best way, {size_text(size)}", ns[best] / ns["auto"], 0.97))
        lines.append([size_text(size), *(f"{size / ns[way]:.2f}" for way in (*WAYS, "auto")), took])
        if size == PEER_SIZE:
            rate = size / ns["auto"] * 1e9
    return gates, lines, rate


def overhead(rounds: int) -> Gate:
    """All that a sample holds beside moving: the time of a job of one line, as part of one of 1 MiB."""
    way = find_mover("memcpy")
    with Region(-1, MIB) as to, Region(-1, MIB) as source:
        for region in (to, source):
            region.view()[::4096] = b"x" * (MIB // 4096)
        jobs = {
            "one line": lambda: fill(to, source, Span(0, 64), way),
            "1 MiB": lambda: fill(to, source, Span(0, MIB), way),
        }
        samples = interleaved(jobs, rounds)
    share = median(samples["one line"]) / median(samples["1 MiB"]) * 100
    return Gate("harness, of a fill of 1 MiB", share, 1.0, at_most=True, unit=" %")


def first_touch(size: int) -> list[Gate]:
    """The touch loop as it comes against pages that are there, and against huge ones."""
    rows = measured(
        buffers=("anon", "anon-thp", "memfd", "memfd-thp"), sizes=(size,), methods=("memcpy",), reps=1,
        populate=("none", "prefault"),
    )  # fmt: skip
    touch = {(row.case["buffer"], row.case.get("populate")): row.median_ns["first_touch"] for row in rows}
    gates = []
    for kind in ("anon", "memfd"):
        loop = touch[kind, None]
        for where, how in ((kind, "prefault"), (f"{kind}-thp", None)):
            if (where, how) in touch:
                name = f"first touch of {size_text(size)}: {kind} over {where}{' populated' if how else ''}"
                gates.append(Gate(name, loop / touch[where, how], 5))
    return gates


def peer(program: list[str], pattern: tuple[re.Pattern[str], int]) -> float | None:
    """The best copy that another program says, in bytes per second; None where it is not installed."""
    if shutil.which(program[0]) is None:
        print(f"note: {program[0]} is not installed", file=sys.stderr)
        return None
    said = subprocess.run(program, capture_output=True, text=True, check=False).stdout
    rates = [float(rate) * pattern[1] for rate in pattern[0].findall(said)]
    return max(rates) if rates else None


def peers(rate: float) -> list[Gate]:
    programs = {
        "mbw": (["mbw", "-q", "-n", "10", str(PEER_SIZE // MIB)], MBW),
        "tinymembench": (["tinymembench"], TINYMEMBENCH),
    }
    found = {name: peer(*program) for name, program in programs.items()}
    return [
        Gate(f"auto over {name}'s best copy ({theirs / 1e9:.2f} GB/s)", rate / theirs, 1.0)
        for name, theirs in found.items()
        if theirs
    ]


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("--most", type=parse_size, default=GIB, metavar="SIZE")
    words.add_argument("--reps", type=int, default=15)
    options = words.parse_args()
    disquiet()
    gates, lines, rate = automatic(options.most, options.reps)
    table(("GB/s", *WAYS, "auto", "auto took"), lines)
    gates += [overhead(501), *first_touch(256 * MIB), *(peers(rate) if rate else [])]
    return verdict(gates)


if __name__ == "__main__":
    sys.exit(main())
