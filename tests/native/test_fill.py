"""Filling memory through Python: every way, any number of threads, the same bytes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.buffers.memfd import sealed
from zcopy.native.calls import NativeError
from zcopy.native.fill import (
    CONSTANT,
    MEMSET_BYTE,
    Span,
    Team,
    fill,
    find_mover,
    movers,
    read_through,
    touch,
)
from zcopy.native.region import Region

SIZE = 1 << 18
WAYS = movers()


@pytest.fixture(scope="module")
def source() -> Iterator[Region]:
    with Region(-1, SIZE) as one:
        one.view()[:] = random.Random(1).randbytes(SIZE)
        yield one


@pytest.fixture(scope="module")
def target() -> Iterator[Region]:
    with sealed("fill", SIZE) as one:
        yield one


def test_what_every_box_has() -> None:
    methods = [mover.method for mover in WAYS]
    assert {"memcpy", "memset"} <= set(methods)
    if os.uname().machine in ("x86_64", "aarch64"):
        assert "nt" in methods
    assert find_mover("memcpy").name == "memcpy/libc"
    assert len({mover.name for mover in WAYS}) == len(WAYS)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@given(ends=st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).filter(lambda ends: ends[0] != ends[1]),
       threads=st.integers(1, 4))  # fmt: skip
def test_every_byte_and_no_other(
    way: object, ends: tuple[int, int], threads: int, source: Region, target: Region
) -> None:
    first, end = sorted(ends)
    span = Span(first, end - first)
    target.view()[:] = b"\xee" * SIZE
    assert fill(target, source, span, way, Team(threads, repeat=2)) >= 0  # type: ignore[arg-type]
    seen = bytes(target.view())
    expected = bytes([MEMSET_BYTE]) * span.size if way.method == CONSTANT else bytes(source.view()[first:end])  # type: ignore[attr-defined]
    assert seen[first:end] == expected
    assert seen[:first] + seen[end:] == b"\xee" * (SIZE - span.size)


@pytest.mark.parametrize("size", [0, -1, SIZE + 1])
def test_sizes_outside_are_refused_before_anything_is_written(
    size: int, source: Region, target: Region
) -> None:
    for call in (
        lambda: fill(target, source, Span(0, size), WAYS[0]),
        lambda: fill(target, source, Span(-1, 64), WAYS[0]),
        lambda: fill(target, source, Span(SIZE - 63, 64), WAYS[0]),
        lambda: touch(target, size),
        lambda: read_through(target, size),
    ):
        with pytest.raises(ValueError, match="bytes"):
            call()


def test_threads_and_cpus_that_do_not_go_together_are_refused(source: Region, target: Region) -> None:
    with pytest.raises(ValueError, match="threads"):
        fill(target, source, Span(0, SIZE), WAYS[0], Team(2, (0,)))
    for threads in (0, 257):
        with pytest.raises(NativeError) as caught:
            fill(target, source, Span(0, SIZE), WAYS[0], Team(threads))
        assert caught.value.name == "EINVAL"
    before = os.sched_getaffinity(0)
    with pytest.raises(NativeError):
        fill(target, source, Span(0, SIZE), WAYS[0], Team(1, (1023,)))
    fill(target, source, Span(0, SIZE), WAYS[0], Team(1, (min(before),)))
    assert os.sched_getaffinity(0) == before


def test_touching_counts_the_faults_of_pages_that_were_not_there() -> None:
    with sealed("touch", 64 * 4096) as fresh:
        _, first = touch(fresh, 64 * 4096)
        _, again = touch(fresh, 64 * 4096)
    assert 64 <= first <= 66
    assert again <= 2
