"""How many rounds a length gets: as many as asked, or fewer on a box where the run would outlast its user's patience.

Without this a default run ends in one and a half minutes on one box and in four on another, whose pages come slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

FEWEST = 3  # a median of two says nothing of which one is the odd one


@dataclass(frozen=True, slots=True)
class Rounds:
    """`most` rounds; from the `FEWEST`-th on, only those that would end before `until_ns` (None: all of them)."""

    most: int
    until_ns: int | None
    ticks: Callable[[], int]  # monotonic ns

    def __iter__(self) -> Iterator[int]:
        """The rounds' numbers from 0; a round is expected to take as long as the slowest one so far."""
        slowest = 0
        for rep in range(self.most):
            began = self.ticks()
            if rep >= FEWEST and self.until_ns is not None and began + slowest > self.until_ns:
                return
            yield rep
            slowest = max(slowest, self.ticks() - began)
