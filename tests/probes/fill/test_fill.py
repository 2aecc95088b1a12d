"""The probe on this box's memory: every way fills what it says, and a way that does not is seen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from zcopy.errors import Exit, Stopped, UsageError
from zcopy.host import Host
from zcopy.model import Outcome, Row
from zcopy.native.calls import NativeError
from zcopy.native.fill import movers
from zcopy.native.flush import flushers
from zcopy.probes.base import Context
from zcopy.probes.fill import arm
from zcopy.probes.fill.params import METHODS, FillParams
from zcopy.probes.fill.probe import FillProbe
from zcopy.stats import median
from zcopy.units import KIB, MIB

Fill = Callable[..., list[Row]]


@pytest.fixture(autouse=True)
def _nothing_left(held: Callable[[], Any]) -> Iterator[None]:
    """No descriptor and no shared memory. (glibc keeps the stacks of threads that have ended.)"""
    before = held()
    yield
    after = held()
    assert after.fds == before.fds
    assert set(after.mappings) == set(before.mappings)


def context(progress: Callable[[str, int, int], None] = lambda *_: None) -> Context:
    return Context(Host.read(), time.monotonic_ns, progress, lambda _: None, dict(os.environ))


@pytest.fixture
def run() -> Fill:
    def fill(**params: Any) -> list[Row]:
        given = {"buffers": ("memfd",), "sizes": (64 * KIB,), "reps": 2, **params}
        return list(FillProbe(FillParams(**given)).measure(context()))

    return fill


def test_every_method_fills_and_is_held_against_a_plain_memcpy(run: Fill) -> None:
    here = tuple(
        method for method in METHODS if method == "auto" or any(each.method == method for each in movers())
    )
    rows = run(methods=here, sizes=(4 * KIB, 2 * MIB), threads=(1, 2))
    assert [(dict(row.case), row.reason) for row in rows if row.outcome is not Outcome.OK] == []
    assert len(rows) == 2 * 2 * (1 + len(here))
    for row in rows:
        assert row.verified
        assert row.bytes == row.case["size"]
        assert row.bytes_copied == (0 if row.case["method"] == "memset" else row.bytes)
        assert row.gbps == pytest.approx(row.bytes / median(row.ns["fill"]))
        assert row.ns["total"] == row.ns["fill"]
        assert len(row.ns["fill"]) == 2
        assert len(row.ns["map"]) == len(row.ns["first_touch"]) == 1
        assert (row.extra["vs_memcpy"] is None) == (row.case["method"] == "memset")
        assert row.extra["caching"] == "cached"
        assert row.case["source"] == "ram"
    bases = [row for row in rows if (row.case["buffer"], row.case["method"]) == ("anon", "memcpy")]
    assert [row.extra["vs_memcpy"] for row in bases] == [1.0] * 4


def test_first_touch_counts_its_faults_and_is_no_part_of_filling(run: Fill) -> None:
    row = run(sizes=(MIB,), methods=("memcpy",))[-1]
    assert row.case["buffer"] == "memfd"
    assert 256 <= int(str(row.extra["faults"])) <= 260
    assert row.extra["proof"]["link"] == "/memfd:zcopy-fill (deleted)"  # type: ignore[index,call-overload]


def test_small_sizes_are_filled_several_times_in_a_sample(run: Fill) -> None:
    small, large = run(sizes=(4 * KIB, 4 * MIB), methods=("memcpy",), buffers=("anon",))
    assert (small.extra["repeat"], large.extra["repeat"]) == (256, 1)


def test_auto_takes_one_of_the_ways_that_copy(run: Fill) -> None:
    row = run(methods=("auto",), sizes=(MIB,))[-1]
    assert row.case["method"] == "auto"
    assert str(row.extra["mover"]).partition("/")[0] in ("memcpy", "nt", "movsb")


def test_an_instruction_set_can_be_forced(run: Fill) -> None:
    for mover in movers():
        if mover.method == "nt":
            row = run(methods=("nt",), isa=mover.isa)[-1]
            assert (row.extra["mover"], row.case["isa"]) == (mover.name, mover.isa)


@pytest.mark.parametrize("stops_at", [0, 2, 3])
def test_a_fill_that_does_nothing_is_seen(stops_at: int, run: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first fill on, or only later, when the bytes of an earlier one lie there."""
    real, calls = arm.fill, iter(range(1000))

    def lazy(to: Any, source: Any, span: Any, mover: Any, team: Any) -> int:
        return real(to, source, span, mover, team) if next(calls) < stops_at else 1000

    monkeypatch.setattr(arm, "fill", lazy)
    (row,) = run(buffers=("anon",), methods=("memcpy",), reps=4)
    assert (row.outcome, row.verified, row.gbps) == (Outcome.FAILED, False, None)
    assert "is not what was filled in" in str(row.reason)


def test_a_fill_that_misses_a_byte_is_seen_with_its_place(run: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    real = arm.fill

    def careless(to: Any, source: Any, span: Any, mover: Any, team: Any) -> int:
        ns = real(to, source, span, mover, team)
        to.view()[777] ^= 1
        return ns

    monkeypatch.setattr(arm, "fill", careless)
    (row,) = run(buffers=("anon",), methods=("memcpy",))
    assert row.reason == "byte 777 of 65536 is not what was filled in"


def test_what_the_box_lacks_is_one_row_a_size(run: Fill) -> None:
    rows = run(buffers=("memfd", "dma-heap:nowhere"), sizes=(64 * KIB, 128 * KIB))
    skipped = [row for row in rows if row.outcome is Outcome.SKIPPED]
    assert [(row.case["buffer"], row.case["size"]) for row in skipped] == [
        ("dma-heap:nowhere", 64 * KIB), ("dma-heap:nowhere", 128 * KIB),
    ]  # fmt: skip
    assert all(row.reason for row in skipped)


def test_what_does_not_fit_is_skipped_with_the_figures(run: Fill) -> None:
    rows = run(sizes=(64 << 30,), methods=("memcpy",))
    assert {row.outcome for row in rows} == {Outcome.SKIPPED}
    assert all("more memory" in str(row.reason) for row in rows)


def test_a_stop_keeps_the_samples() -> None:
    def stop(what: str, *_: int) -> None:
        if "round 2" in what:
            raise Stopped(Exit.INTERRUPTED)

    probe = FillProbe(FillParams(("memfd", "dma-heap:nowhere"), (64 * KIB,), methods=("memcpy",), reps=3))
    with pytest.raises(Stopped):
        list(probe.measure(context(stop)))
    assert [(row.case["buffer"], str(row.outcome), len(row.ns.get("fill", ()))) for row in probe.partial()] == [
        ("anon", "ok", 1), ("memfd", "ok", 1), ("dma-heap:nowhere", "skipped", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sizes": (100,)}, "--size 100 B"),
        ({"sizes": (1 << 40,)}, "--size 1024 GiB"),
        ({"threads": (0,)}, "--threads 0"),
        ({"threads": (257,)}, "--threads 257"),
        ({"reps": 0}, "--reps 0"),
        ({"ranges": (63,)}, "--range 63 B"),
        ({"ranges": (4097,)}, "--range 4.00 KiB"),
        ({"threads": (3,), "cpus": (0, 1)}, "as many"),
    ],
)
def test_absurd_values_are_wrong_usage(change: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        FillParams(**{"buffers": ("memfd",), "sizes": (4096,), **change})


def test_a_flush_by_line_is_measured_on_memory_without_syncs_of_its_own(run: Fill) -> None:
    rows = run(
        buffers=("memfd",), methods=("memcpy", "nt"), syncs=("none", "clean", "flush"), sizes=(256 * KIB,)
    )
    assert [(row.case["buffer"], row.case["method"], row.case["sync"]) for row in rows] == [
        ("anon", "memcpy", "none"),
        ("memfd", "memcpy", "none"), ("memfd", "memcpy", "flush"), ("memfd", "nt", "none"), ("memfd", "nt", "flush"),
    ]  # fmt: skip
    for row in rows:
        assert row.verified
        flushed = row.case["sync"] == "flush"
        assert (row.extra.get("flusher") in flushers()) == flushed
        assert ("sync" in row.ns) == flushed
        assert "fence" not in row.ns  # no device can be at work on it
        if flushed:
            assert min(row.ns["sync"]) > 0
            assert row.ns["total"] == tuple(map(sum, zip(row.ns["fill"], row.ns["sync"], strict=True)))


def test_a_flush_costs_by_the_lines_it_looks_after(run: Fill) -> None:
    """A hundredth of the lines, in one interleaved run: less than half the time, fences and all."""
    rows = run(methods=("memcpy",), syncs=("flush",), sizes=(4 * MIB,), ranges=(40 * KIB,), reps=5)
    part, whole = (median(row.ns["sync"]) for row in rows if row.case["sync"] == "flush")
    assert part < whole / 2


@pytest.mark.parametrize("declared", ["write-combine", "uncached"])
def test_no_flush_of_what_no_cache_holds(declared: str, run: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zcopy.buffers.memfd.Memfd.declared", lambda *_: declared)
    row = run(methods=("memcpy",), syncs=("flush",))[-1]
    assert (row.outcome, row.reason) == (
        Outcome.REFUSED, f"its mapping is {declared}: no line of it is in a cache",
    )  # fmt: skip


def test_a_cpu_without_the_instruction_refuses(run: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zcopy.probes.fill.sync.flushers", list)
    row = run(methods=("memcpy",), syncs=("flush",))[-1]
    assert row.outcome is Outcome.REFUSED
    assert "this CPU cannot" in str(row.reason)


def test_populating_takes_the_faults_out_of_the_first_touch(run: Fill) -> None:
    """In one run: the same memory touched as it comes, and with its pages there."""
    rows = run(
        buffers=("anon", "memfd"), methods=("memcpy",), populate=("none", "prefault"), sizes=(16 * MIB,)
    )
    by = {(row.case["buffer"], row.case.get("populate")): row for row in rows}
    assert list(by) == [("anon", None), ("anon", "prefault"), ("memfd", None), ("memfd", "prefault")]
    for buffer in ("anon", "memfd"):
        touched, populated = by[buffer, None], by[buffer, "prefault"]
        assert "populate" not in touched.ns
        assert populated.ns["populate"][0] > 0
        assert int(str(populated.extra["faults"])) <= 4
        assert populated.ns["first_touch"][0] * 5 <= touched.ns["first_touch"][0]
        assert populated.verified
    assert by["anon", "prefault"].extra["vs_memcpy"] is not None


def test_what_has_its_pages_already_is_not_populated_twice(run: Fill) -> None:
    """And ordinary memory that nobody asked for is only there to be held against."""
    rows = run(buffers=("memfd-thp",), methods=("nt",), populate=("prefault",), sizes=(2 * MIB,))
    assert [(row.case["buffer"], "populate" in row.case) for row in rows] == [
        ("anon", False), ("memfd-thp", False),
    ]  # fmt: skip


def test_only_the_plain_memcpy_is_what_others_are_held_against(run: Fill) -> None:
    rows = run(buffers=("anon",), methods=("memcpy",), syncs=("none", "flush"), populate=("none", "prefault"))
    assert [row.extra["vs_memcpy"] for row in rows].count(1.0) == 1
    assert rows[0].extra["vs_memcpy"] == 1.0


def test_a_refused_sync_leaves_the_mapping_unsaid(run: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise NativeError(5, "Input/output error")

    monkeypatch.setattr("zcopy.probes.fill.caching.rates", refuse)
    rows = run(methods=("memcpy",))
    assert [(str(row.outcome), row.extra.get("caching")) for row in rows] == [("ok", None)] * 2
