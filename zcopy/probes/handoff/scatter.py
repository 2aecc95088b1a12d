"""Which cells a prompt goes into: a range, or the holes of a fragmented cache."""

from __future__ import annotations

from random import Random

OTHER_SEQUENCE = 1  # holds the cells between the holes
SEQUENCE = 0  # the prompt's


def contiguous(cells: int) -> tuple[tuple[int, int], ...]:
    """One run from cell 0."""
    return ((0, cells),)


def scattered(cells: int, ctx: int, seed: int) -> tuple[tuple[int, int], ...]:
    """Runs of 1 to 8 cells with occupied cells between them, as far as `ctx - cells` occupied ones reach.

    Ascending and disjoint; the same for the same arguments.
    """
    order, spare, at, runs = Random(f"{seed} {cells} {ctx}"), ctx - cells, 0, []
    left = cells
    while left:
        length = min(left, order.randint(1, 8))
        # Spread what can be occupied over what is left, so that the holes reach to the end of the cache.
        gap = min(spare, order.randint(0, 2 * max(1, spare * length // left)))
        at += gap
        spare -= gap
        runs.append((at, length))
        at += length
        left -= length
    return tuple(_joined(runs))


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs that touch are one run."""
    joined: list[tuple[int, int]] = []
    for first, count in runs:
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        else:
            joined.append((first, count))
    return joined


def cells_of(runs: tuple[tuple[int, int], ...]) -> list[int]:
    """The cells of the runs, ascending."""
    return [cell for first, count in runs for cell in range(first, first + count)]


def between(runs: tuple[tuple[int, int], ...]) -> list[int]:
    """The cells before and between the runs: what another sequence occupies."""
    found: list[int] = []
    at = 0
    for first, count in runs:
        found.extend(range(at, first))
        at = first + count
    return found
