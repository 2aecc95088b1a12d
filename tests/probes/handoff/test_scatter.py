"""Fragmented caches: where the holes are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from zcopy.probes.handoff.scatter import between, cells_of, contiguous, scattered

SEEDS = st.integers(0, 2**32)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    cells = draw(st.integers(1, 600))
    return cells, cells + draw(st.one_of(st.integers(0, 8), st.integers(0, 3000)))


@settings(max_examples=150, deadline=None)
@given(size=sizes(), seed=SEEDS)
def test_runs_are_ascending_disjoint_and_complete(size: tuple[int, int], seed: int) -> None:
    cells, ctx = size
    found = cells_of(scattered(cells, ctx, seed))
    assert len(found) == cells
    assert found == sorted(set(found))
    assert found[0] >= 0
    assert found[-1] < ctx


@settings(max_examples=150, deadline=None)
@given(size=sizes(), seed=SEEDS)
def test_what_lies_between_is_the_rest(size: tuple[int, int], seed: int) -> None:
    cells, ctx = size
    runs = scattered(cells, ctx, seed)
    taken, occupied = set(cells_of(runs)), set(between(runs))
    assert taken.isdisjoint(occupied)
    assert taken | occupied == set(range(max(taken) + 1))
    assert all(first > 0 for first, _ in runs[1:])
    # Runs that touch would be one run.
    assert all(a + count < b for (a, count), (b, _) in pairwise(runs))


@given(cells=st.integers(64, 2000), seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_the_cache_really_is_fragmented(cells: int, seed: int) -> None:
    """With as many cells to occupy as to take there are many runs, none long, all over the cache."""
    runs = scattered(cells, 2 * cells + 64, seed)
    assert len(runs) >= cells // 12
    assert max(count for _, count in runs) < cells // 2
    assert cells_of(runs)[-1] >= cells * 5 // 4


@given(size=sizes(), seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_the_same_asked_is_the_same_given(size: tuple[int, int], seed: int) -> None:
    assert scattered(*size, seed) == scattered(*size, seed)


@given(cells=st.integers(1, 300), seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_full_cache_has_no_holes_but_the_whole(cells: int, seed: int) -> None:
    assert scattered(cells, cells, seed) == contiguous(cells) == ((0, cells),)


@given(seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_seeds_differ(seed: int) -> None:
    assume(seed > 0)
    assert scattered(200, 1000, seed) != scattered(200, 1000, seed - 1)
