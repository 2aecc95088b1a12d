"""The kernel's CPU list format: ``0-3,8,10-11``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST: Final = 8192  # CONFIG_NR_CPUS never goes above this; a list that does is not one


def parse_cpus(text: str) -> tuple[int, ...]:
    """The CPU numbers of a list, ascending and each once. Raises ValueError on anything else."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{text!r} is not a CPU list (try 0-3,8)")
        low, high = int(first[:9]), int((last or first)[:9])
        if low > high or high >= MOST:
            raise ValueError(f"{part!r} is not a range of CPUs")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def cpus_or_empty(text: str | None) -> tuple[int, ...]:
    """`parse_cpus` for files: an odd or missing list is empty."""
    try:
        return parse_cpus(text) if text else ()
    except ValueError:
        return ()


def cpus_text(cpus: Iterable[int]) -> str:
    """``0-3,8`` of (0, 1, 2, 3, 8)."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
