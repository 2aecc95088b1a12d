"""Order statistics over integer samples; no numpy, since every command's output needs them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def median(samples: Sequence[int]) -> int:
    """The middle sample, or the mean of the two middle ones rounded down. Raises ValueError on none."""
    if not samples:
        raise ValueError("the median of no samples")
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def percentile(samples: Sequence[int], share: float) -> int:
    """The nearest-rank percentile: the smallest sample with at least `share` (0 to 1) of all at or below it."""
    if not samples:
        raise ValueError("a percentile of no samples")
    if not 0 <= share <= 1:
        raise ValueError(f"a share of {share}")
    return sorted(samples)[max(0, ceil(share * len(samples)) - 1)]
