"""What the scripts of this folder share: rounds of interleaved variants, a table of medians, and verdicts.

Only ratios and counts are gates where possible: absolute figures move from machine to machine and hour to hour.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from zcopy.host import Host
from zcopy.model import Outcome, Row
from zcopy.probes.base import Context
from zcopy.probes.handoff.params import HandoffParams
from zcopy.probes.handoff.probe import HandoffProbe
from zcopy.stats import median


@dataclass(frozen=True)
class Gate:
    """A figure and the bound it has to keep."""

    what: str
    value: float
    bound: float
    at_most: bool = False
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def __str__(self) -> str:
        word = "at most" if self.at_most else "at least"
        figures = f"{self.value:,.2f}{self.unit} ({word} {self.bound:g}{self.unit})"
        return f"{'PASS' if self.holds else 'FAIL'}  {self.what}: {figures}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Prints aligned columns, the first to the left and all others to the right."""
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    for line in (head, *lines):
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join([line[0].ljust(widths[0]), *cells[1:]]))
    print()


def verdict(gates: Sequence[Gate]) -> int:
    """Prints every gate; the exit code of the script."""
    for gate in gates:
        print(gate)
    return 0 if gates and all(gate.holds for gate in gates) else 1


def disquiet() -> None:
    """Says what makes this box unfit for measuring now."""
    for warning in Host.read().quiet_warnings():
        print(f"note: {warning.text}", file=sys.stderr)


def interleaved(
    variants: Mapping[str, Callable[[], int]], rounds: int, seed: int = 1
) -> dict[str, list[int]]:
    """`rounds` samples of every variant (each returns its ns), in an order drawn anew each round."""
    order, random = list(variants), Random(seed)
    samples: dict[str, list[int]] = {name: [] for name in order}
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            samples[name].append(variants[name]())
    return samples


def spread(samples: Sequence[int], unit: float) -> list[str]:
    """Median, least and most, in units of so many ns."""
    return [f"{value / unit:,.3f}" for value in (median(samples), min(samples), max(samples))]


def handoff(params: HandoffParams) -> list[Row]:
    """The rows of a run of the handoff probe. Ends the script where one of them is not ok."""
    context = Context(Host.read(), time.monotonic_ns, _progress, lambda _: None, dict(os.environ))
    rows = list(HandoffProbe(params).measure(context))
    if faults := [row for row in rows if row.outcome is not Outcome.OK]:
        for row in faults:
            print(f"{dict(row.case)}: {row.outcome}: {row.reason}", file=sys.stderr)
        raise SystemExit(77 if all(row.outcome is Outcome.SKIPPED for row in faults) else 1)
    return rows


def _progress(what: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{what:60.60} {done}/{total}", end="\r" if done < total - 1 else "\n", file=sys.stderr)
