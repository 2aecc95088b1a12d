"""What is computed over the rows of a length: ratios, costs per cell, warnings, recommendations."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Protocol

import pytest

from zcopy.model import Outcome, Row
from zcopy.probes.handoff.advice import advise, first_write_ns, misread_switch, recommend, uncounted
from zcopy.probes.handoff.derived import finished
from zcopy.probes.handoff.evidence import Io
from zcopy.probes.handoff.params import ROUTES
from zcopy.stats import median

MS = 1_000_000


class Ran(Protocol):
    rows: list[Row]
    warnings: list[Any]

    def row(self, **case: Any) -> Row: ...


class Handoff(Protocol):
    def __call__(self, **params: Any) -> Ran: ...


def test_ratios_and_costs_are_those_of_the_samples(handoff: Handoff) -> None:
    ran = handoff(routes=ROUTES, reps=5)
    base = median(ran.row(route="file", region="reused").ns["total"])
    for row in ran.rows:
        assert row.extra["vs_file"] == pytest.approx(base / median(row.ns["total"]), abs=6e-4)
        assert row.extra["ns_per_cell"] == pytest.approx(median(row.ns["adopt"]) / 37, abs=6e-4)
    assert ran.row(route="file", region="reused").extra["vs_file"] == 1.0


def test_without_a_file_row_there_is_no_ratio(handoff: Handoff) -> None:
    for row in handoff(routes=("shared", "copy")).rows:
        assert row.extra["vs_file"] is None
        assert row.extra["ns_per_cell"]


def test_a_failed_row_has_no_ratio(handoff: Handoff) -> None:
    for row in handoff(routes=("shared", "file"), inject="short").rows:
        assert row.extra["vs_file"] is None


def test_of_two_folders_the_first_is_the_measure(handoff: Handoff, state_dir: Any) -> None:
    ran = handoff(routes=("file",), regions=("fresh",), state_dirs=(f"{state_dir}/a", f"{state_dir}/b"))
    assert ran.rows[0].extra["vs_file"] == 1.0
    for name in ("a", "b"):
        (state_dir / name).rmdir()


def test_each_memory_is_held_against_its_own_file_route() -> None:
    rows = [
        row("file", "fresh", 10 * MS), row("file", "reused", 20 * MS),
        row("file", "reused", 60 * MS, buffer="memfd-thp"),
        row("shared", "reused", 2 * MS), row("shared", "reused", 2 * MS, buffer="memfd-thp"),
        row("shared", "reused", 2 * MS, buffer="memfd-huge"),
    ]  # fmt: skip
    assert [each.extra["vs_file"] for each in finished(rows)] == [2.0, 1.0, 1.0, 10.0, 30.0, 10.0]


def row(route: str, region: str, total: int, **more: Any) -> Row:
    case = {
        "route": route, "region": region, "buffer": more.pop("buffer", "memfd"), "cells": more.pop("cells", 307),
        "populate": more.pop("populate", None),
    }  # fmt: skip
    times = more.pop("times", 1)
    ns = {"total": (total,), **{phase: (value,) * times for phase, value in more.pop("ns", {}).items()}}
    return Row(case=case, ns=ns, outcome=more.pop("outcome", Outcome.OK), extra=more)


def test_a_fresh_region_that_loses_is_warned_of() -> None:
    rows = [
        row("file", "reused", 32 * MS),
        row("file", "reused", 22 * MS),
        row("shared", "fresh", 47 * MS),
        row("shared", "reused", 1 * MS),
    ]
    (warning,) = advise(rows)
    assert warning.code == "fresh-region-loses"
    assert "307 cells" in warning.text
    assert "(47.0 ms)" in warning.text
    assert "(22.0 ms)" in warning.text  # against the faster of the two


@pytest.mark.parametrize(("faults", "advised"), [(4096, True), (8, False)])
def test_huge_pages_are_advised_only_to_who_has_small_ones(faults: int, advised: bool) -> None:
    fresh = replace(row("shared", "fresh", 47 * MS, faults=faults), bytes=16 << 20)
    (warning,) = advise([row("file", "reused", 22 * MS), fresh])
    assert ("huge pages" in warning.text) is advised


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row("file", "reused", 50 * MS), row("shared", "fresh", 47 * MS)],
        [row("file", "fresh", 2 * MS), row("shared", "fresh", 47 * MS)],
        [row("file", "reused", 2 * MS), row("shared", "fresh", 47 * MS, outcome=Outcome.FAILED)],
        [row("file", "reused", 2 * MS, outcome=Outcome.FAILED), row("shared", "fresh", 47 * MS)],
        [row("file", "reused", 2 * MS), row("shared", "reused", 47 * MS)],
        [row("file", "reused", 2 * MS), row("copy", "reused", 47 * MS)],
    ],
)
def test_nothing_else_is_warned_of(rows: list[Row]) -> None:
    assert list(advise(rows)) == []


def test_a_box_that_does_not_count_is_told() -> None:
    assert uncounted(Io(0, 0)) is None
    warning = uncounted(None)
    assert warning is not None
    assert warning.code == "no-io-count"


def test_the_way_that_serves_is_recommended_for_each_length() -> None:
    rows = [
        row("shared", "fresh", 47 * MS, populate="none"),
        row("shared", "reused", MS // 10, populate="prefault", vs_file=2345.6),
        row("file", "reused", 32 * MS),
        row("shared", "reused", MS, cells=4105, populate="none", vs_file=0.5),
        row("file", "reused", MS // 2, cells=4105),
        row("file", "reused", MS, cells=9),
    ]
    assert recommend(rows) == [
        "307 cells: a reused memfd region, populated and pre-read serves: 0.1 ms a request,"
        " 2,346 times less than the state file.",
        "4105 cells: the state file serves: 0.5 ms a request; a reused memfd region costs more.",
    ]


def test_the_cheapest_first_write_is_told_with_its_faults() -> None:
    ways = [
        row(
            "shared",
            "reused",
            1,
            populate="prefault",
            ns={"first_write": 10 * MS, "prefault": MS},
            faults=700,
        ),
        row("shared", "fresh", 2, populate="none", ns={"first_write": 55 * MS}, times=3, faults=11_088),
        row("shared", "fresh", 3, populate="map", ns={"first_write": 30 * MS}, faults=11_088),
    ]
    random.Random(1).shuffle(ways)
    notes = recommend(ways)
    assert len(notes) == 2
    assert "11.0 ms with 700 page faults (a reused memfd region, populated and pre-read; once)" in notes[1]
    assert "against 55.0 ms with 11,088 (a fresh memfd region; median of 3)" in notes[1]


def test_a_small_difference_is_no_recommendation() -> None:
    ways = [
        row("shared", "reused", 1, ns={"first_write": 10}, faults=1),
        row("shared", "fresh", 2, ns={"first_write": 19}, faults=2),
    ]
    assert len(recommend(ways)) == 1


def test_the_first_write_includes_what_preparing_it_cost() -> None:
    assert first_write_ns(row("shared", "reused", 1, ns={"first_write": 5, "prefault": 3})) == 8
    assert first_write_ns(row("file", "reused", 1)) is None


def test_a_run_ends_with_advice_that_can_be_given(handoff: Handoff) -> None:
    ran = handoff(routes=("shared", "file"), reps=3)
    notes = recommend(ran.rows)
    assert notes[0].startswith("37 cells: a reused memfd region")


@pytest.mark.parametrize(
    ("value", "warned"), [("0", True), ("Off", True), ("1", False), ("", False), (None, False)]
)
def test_a_switch_that_is_on_though_it_says_off_is_told(value: str | None, warned: bool) -> None:
    warning = misread_switch({} if value is None else {"ONEBIT_KV_SHARE": value})
    assert (warning is not None) is warned
    assert warning is None or f"ONEBIT_KV_SHARE={value}" in warning.text
