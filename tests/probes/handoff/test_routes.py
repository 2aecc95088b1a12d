"""The probe end to end, on the tiny preset: real provider processes, every byte verified."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from zcopy.model import Outcome, Row
from zcopy.native import provider
from zcopy.native.provider import helper
from zcopy.native.rows import kernel_names
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache, Geometry
from zcopy.probes.handoff.params import PASSES, POPULATES, ROUTES
from zcopy.stats import median
from zcopy.units import MIB

pytestmark = pytest.mark.usefixtures("nothing_left")

TINY = PRESETS["tiny"]
CELLS, ROW = 37, 128 * 2
PAYLOAD = CELLS * 2 * 4 * ROW
STATE = 28 + 4 * CELLS + 8 + 12 * CELLS + 16 + 8 * 12 + PAYLOAD
PHASES = {
    ("shared", "reused"): {"export", "populate", "pass", "map", "first_write", "prefault", "write", "wake", "adopt",
                           "ready", "total"},
    ("shared", "fresh"): {"export", "pass", "map", "first_write", "write", "wake", "adopt", "ready", "total"},
    ("file", "reused"): {"save", "restore", "transfer", "adopt", "total"},
    ("file", "fresh"): {"save", "restore", "transfer", "adopt", "total"},
    ("copy", "reused"): {"write", "wake", "copy", "adopt", "ready", "total"},
    ("pipe", "reused"): {"stream", "adopt", "total"},
}  # fmt: skip
ONCE = {"export", "populate", "pass", "map", "first_write", "prefault"}  # of a region that is made once
MOVED = {"shared": 0, "file": 2 * STATE, "copy": PAYLOAD, "pipe": 2 * PAYLOAD}
READ = {"shared": 0, "file": STATE, "copy": 0, "pipe": PAYLOAD}


class Ran(Protocol):
    rows: list[Row]
    warnings: list[Any]

    def row(self, **case: Any) -> Row: ...


class Handoff(Protocol):
    def __call__(self, **params: Any) -> Ran: ...


def all_ok(rows: list[Row]) -> None:
    assert [(dict(row.case), row.reason) for row in rows if row.outcome is not Outcome.OK] == []
    assert all(row.verified for row in rows)


def test_every_route_moves_what_it_says(handoff: Handoff) -> None:
    ran = handoff(routes=ROUTES, reps=3)
    all_ok(ran.rows)
    assert [(row.case["route"], row.case["region"]) for row in ran.rows] == list(PHASES)
    for row in ran.rows:
        route, region = str(row.case["route"]), str(row.case["region"])
        assert (row.bytes, row.bytes_copied, row.extra["n_read"]) == (PAYLOAD, MOVED[route], READ[route])
        assert row.extra["region_bytes"] == 256 * 2 * 4 * ROW
        assert set(row.ns) == PHASES[route, region]
        for phase, samples in row.ns.items():
            once = (route, region) == ("shared", "reused") and phase in ONCE
            assert len(samples) == (1 if once else 3), (route, region, phase)
            assert all(type(each) is int and each >= 0 for each in samples)
        assert str(row.extra["proof"]).count("/memfd:zcopy-kv")


def test_what_the_kernel_saw_is_what_was_counted(handoff: Handoff) -> None:
    """Exactly on the file route, whose two processes do nothing else meanwhile."""
    for row in handoff(routes=ROUTES).rows:
        seen = row.extra.get("proc_io_bytes")
        if row.case["route"] == "copy":
            assert seen is None
        elif seen is not None:
            assert seen == MOVED[str(row.case["route"])]


MOVING = {"file": "transfer", "copy": "copy", "pipe": "stream"}


def test_rates_are_bytes_over_the_span_that_moves_them(handoff: Handoff) -> None:
    for row in handoff(routes=ROUTES, reps=3).rows:
        if row.case["route"] == "shared":
            assert (row.gbps, row.document()["gbps"]) == (None, None)
        else:
            assert row.gbps == pytest.approx(
                row.bytes_copied / median(row.ns[MOVING[str(row.case["route"])]])
            )


def test_a_fresh_region_pays_what_it_is_made_of(handoff: Handoff) -> None:
    row = handoff(routes=("shared",), regions=("fresh",), populate=("prefault",), reps=4).row()
    for i, total in enumerate(row.ns["total"]):
        paid = {phase: samples[i] for phase, samples in row.ns.items()}
        once = paid["export"] + paid["populate"] + paid["pass"] + paid["map"]
        cold = max(0, paid["prefault"] + paid["first_write"] - paid["write"])
        assert total == once + cold + paid["ready"]


def test_a_reused_region_pays_only_the_last_step(handoff: Handoff) -> None:
    row = handoff(routes=("shared",), regions=("reused",), reps=4).row()
    assert row.ns["total"] == row.ns["ready"]


def test_the_file_route_pays_saving_restoring_and_adopting(handoff: Handoff) -> None:
    for row in handoff(routes=("file",), reps=3).rows:
        save, restore, adopt = (row.ns[phase] for phase in ("save", "restore", "adopt"))
        assert row.ns["transfer"] == tuple(map(sum, zip(save, restore, strict=True)))
        assert row.ns["total"] == tuple(map(sum, zip(save, restore, adopt, strict=True)))


@pytest.mark.parametrize("populate", POPULATES)
@pytest.mark.parametrize("passing", PASSES)
def test_every_way_to_get_a_region_over(populate: str, passing: str, handoff: Handoff) -> None:
    ran = handoff(routes=("shared",), populate=(populate,), passing=(passing,), reps=2)
    all_ok(ran.rows)
    for row in ran.rows:
        assert (row.case["pass"], row.case["populate"]) == (passing, populate)
        assert ("populate" in row.ns, "prefault" in row.ns) == (populate != "none", populate == "prefault")


def test_first_touch_has_its_exact_faults(handoff: Handoff) -> None:
    """One per 4 KiB page of rows; with the region populated and pre-read one per 64 KiB."""
    if os.sysconf("SC_PAGE_SIZE") != 4096:
        pytest.skip("counted in pages of 4 KiB")
    cache = Cache(Geometry.uniform("wide", 2, 8, 128, 128), TYPES["f16"], TYPES["f16"])
    ran = handoff(
        cache=cache, cells=2048, ctx=2048, routes=("shared",), populate=("none", "map", "prefault"), reps=3
    )
    all_ok(ran.rows)
    pages = 2048 * cache.cell_bytes // 4096
    for row in ran.rows:
        samples = row.extra["faults_samples"]
        assert isinstance(samples, list)
        least = pages // 16 if row.case["populate"] == "prefault" else pages
        assert all(least <= each <= least + 16 for each in samples), dict(row.case)
        assert row.extra["faults"] == sorted(samples)[(len(samples) - 1) // 2]
        assert len(samples) == (1 if row.case["region"] == "reused" else 3)


TYPED = [
    ("f32", "f32"),
    ("bf16", "f16"),
    ("f16", "bf16"),
    ("q8_0", "f16"),
    ("q4_0", "q8_0"),
    ("q4_0", "q4_0"),
]


@pytest.mark.parametrize(("k", "v"), TYPED)
@pytest.mark.parametrize("scatter", [False, True])
def test_every_type(k: str, v: str, scatter: bool, handoff: Handoff) -> None:
    cache = Cache(TINY, TYPES[k], TYPES[v], rotation=(64, 64))
    ran = handoff(cache=cache, routes=ROUTES, scatter=scatter)
    all_ok(ran.rows)
    assert {row.bytes for row in ran.rows} == {CELLS * cache.cell_bytes}
    assert {(row.case["type_k"], row.case["type_v"], row.case["scatter"]) for row in ran.rows} == {
        (k, v, scatter)
    }


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("scatter", [False, True])
def test_transposed_v(kind: str, scatter: bool, handoff: Handoff) -> None:
    cache = Cache(TINY, TYPES["f16"], TYPES[kind], v_trans=True)
    ran = handoff(cache=cache, routes=ROUTES, scatter=scatter, reps=2)
    all_ok(ran.rows)
    assert all(row.case["v_trans"] for row in ran.rows)


@pytest.mark.parametrize("turned", [False, True])
def test_layers_and_rows_that_differ(turned: bool, handoff: Handoff) -> None:
    """Hybrids lack attention in some layers; K and V heads may have different sizes."""
    uneven = Geometry("uneven", ((64, 32), (320, 96), (32, 160)), 32, 16)
    all_ok(handoff(cache=Cache(uneven, TYPES["f16"], TYPES["f16"], turned), routes=ROUTES, scatter=True).rows)


@pytest.mark.parametrize(("cells", "ctx"), [(1, 1), (1, 256), (256, 256), (255, 256), (1000, 1001)])
@pytest.mark.parametrize("scatter", [False, True])
def test_lengths_at_the_edges(cells: int, ctx: int, scatter: bool, handoff: Handoff) -> None:
    all_ok(handoff(cells=cells, ctx=ctx, routes=ROUTES, scatter=scatter).rows)


def test_more_runs_than_one_message_holds(handoff: Handoff) -> None:
    """Tens of thousands of cells in single-figure runs."""
    cache = Cache(Geometry.uniform("thin", 1, 1, 4, 4), TYPES["f16"], TYPES["f16"])
    all_ok(handoff(cache=cache, cells=40_000, ctx=90_000, routes=ROUTES, scatter=True).rows)


def test_lengths_come_one_after_another(handoff: Handoff) -> None:
    from zcopy.probes.handoff.params import Length

    ran = handoff(lengths=(Length(5, 64), Length(50, 128)), reps=2)
    all_ok(ran.rows)
    assert [(row.case["cells"], row.case["region"]) for row in ran.rows] == [
        (cells, region) for cells in (5, 50) for region in ("reused", "fresh") * 2
    ]  # fmt: skip


@pytest.mark.parametrize("kernel", ["base", "avx2"])
def test_a_forced_kernel_serves(kernel: str, handoff: Handoff) -> None:
    if kernel not in kernel_names():
        pytest.skip(f"this CPU or build has no {kernel} kernel")
    all_ok(handoff(kernel=kernel, routes=("shared",)).rows)


def test_a_kernel_that_is_not_there_is_a_failed_row(handoff: Handoff) -> None:
    assert {row.outcome for row in handoff(kernel="mmx", routes=("shared",)).rows} == {Outcome.FAILED}


def test_who_writes_is_part_of_what_makes_two_rows_alike(handoff: Handoff) -> None:
    for kernel in kernel_names():
        for row in handoff(kernel=kernel, routes=ROUTES).rows:
            assert row.extra["key"] == {"writer": f"zcopy-provider {kernel}"}
            assert row.case["provider"] == "plain"


def test_where_no_sanitizer_looked_none_is_said_to_have(handoff: Handoff) -> None:
    assert all("asan_reports" not in row.extra for row in handoff(routes=ROUTES).rows)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("route", ROUTES)
def test_a_report_with_any_request_timed_or_not_ends_the_row(
    route: str, number: int, handoff: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = provider._handoff, iter(range(1000))

    def reporting(out: Any) -> provider.Handoff:
        got = real(out)
        return replace(got, done=replace(got.done, reports=3)) if next(seen) == number else got

    monkeypatch.setattr(provider, "_handoff", reporting)
    row = handoff(routes=(route,), regions=("reused",), reps=3).row()
    assert row.outcome is Outcome.FAILED
    assert row.reason == "AddressSanitizer counted 3 forbidden writes by the provider"
    assert row.extra["asan_reports"] == 3


def test_the_sanitizers_provider_finds_a_sound_run_sound(handoff: Handoff) -> None:
    if not (Path(str(helper("zcopy-provider")) + "-asan")).exists():
        pytest.skip("this build has no zcopy-provider-asan")
    ran = handoff(provider="asan", routes=ROUTES)
    all_ok(ran.rows)
    assert all(row.extra["asan_reports"] == 0 for row in ran.rows)


def test_folders_on_disk_and_in_memory_are_rows_of_their_own(handoff: Handoff, state_dir: Path) -> None:
    memory = Path("/dev/shm/zcopy-test")
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm to write to")
    try:
        ran = handoff(routes=("file",), state_dirs=(str(state_dir), str(memory)))
        all_ok(ran.rows)
        assert ran.row(state_dir=str(memory), region="fresh").extra["filesystem"] == "tmpfs"
        assert list(memory.iterdir()) == []
    finally:
        memory.rmdir()


def test_huge_pages_meet_no_faults(handoff: Handoff) -> None:
    ran = handoff(buffers=("memfd-thp",), routes=("shared",), cells=2000, ctx=4096)
    if (row := ran.rows[0]).outcome is Outcome.SKIPPED:
        pytest.skip(str(row.reason))
    all_ok(ran.rows)
    for row in ran.rows:
        proof = row.extra["proof"]
        assert isinstance(proof, dict)
        assert proof["huge_bytes"] == row.extra["region_bytes"] == 8 * MIB
        assert int(str(row.extra["faults"])) <= 16
