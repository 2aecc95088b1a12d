"""A provider that is wrong on purpose: every route's row must see it, and say what it saw."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Protocol

import pytest

from zcopy.errors import SkippedError, UsageError
from zcopy.model import Outcome, Row
from zcopy.native.provider import helper
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import INJECTS, ROUTES

pytestmark = pytest.mark.usefixtures("nothing_left")

TINY = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])
QUANTISED = Cache(PRESETS["tiny"], TYPES["q8_0"], TYPES["q8_0"], rotation=(64, 64))
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scattered": {"scatter": True},
    "transposed": {"cache": replace(TINY, v_trans=True)},
    "scattered, transposed": {"cache": replace(TINY, v_trans=True), "scatter": True},
    "quantised": {"cache": QUANTISED},
    "a full cache": {"cells": 64, "ctx": 64},
}


class Ran(Protocol):
    rows: list[Row]
    warnings: list[Any]

    def row(self, **case: Any) -> Row: ...


class Handoff(Protocol):
    def __call__(self, **params: Any) -> Ran: ...


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("inject", INJECTS)
def test_every_route_turns_red(inject: str, layout: str, handoff: Handoff) -> None:
    ran = handoff(inject=inject, routes=ROUTES, **LAYOUTS[layout])
    assert len(ran.rows) == 6
    for row in ran.rows:
        assert (row.outcome, row.verified) == (Outcome.FAILED, False), dict(row.case)
        assert (row.gbps, row.bytes_copied) == (None, 0)
        assert "total" not in row.ns
        assert row.case["inject"] == inject


# The first wrong byte on the shared route of the plain layout: 37 of 256 cells, rows of 256 bytes.
FIRST = {
    "swap-kv": "wrong row: layer 0 K cell 0 byte 0",
    "stride": "wrong row: layer 0 K cell 1 byte 0",
    "run-long": "overwritten: layer 0 K cell 37 byte 0, which must not be written",
    "short": "wrong row: layer 0 K cell 36 byte 0",
    "no-write": "wrong row: layer 0 K cell 0 byte 0",
    "early-done": "wrong row: layer 0 K cell 0 byte 0",
}


@pytest.mark.parametrize("inject", INJECTS)
@pytest.mark.parametrize("region", ["reused", "fresh"])
@pytest.mark.parametrize("passing", ["scm", "inherit"])
def test_the_first_wrong_byte_is_named(inject: str, region: str, passing: str, handoff: Handoff) -> None:
    ran = handoff(inject=inject, routes=("shared",), regions=(region,), passing=(passing,))
    assert ran.row().reason == FIRST[inject]


# What moves bytes meets the same mistakes in its packed source, or in the step that moves them.
MOVED = {
    "swap-kv": r"wrong row: layer 0 K cell 0 byte 0",
    "stride": r"wrong row: layer 0 K cell 1 byte 0",
    "run-long": r"wrong row: layer 0 V cell 0 byte 0",  # a packed K ends where V begins
    "short": r"wrong row: layer 0 K cell 36 byte 0",
    "no-write": r"wrong row: layer 0 K cell 0 byte 0",
    "early-done": r"wrong row: layer 0 K cell 0|before all rows were written|state file .*(No such file|expected)",
}


@pytest.mark.parametrize("inject", INJECTS)
def test_the_routes_that_move_bytes_say_what_they_saw(inject: str, handoff: Handoff) -> None:
    for row in handoff(inject=inject, routes=("file", "copy", "pipe")).rows:
        assert re.search(MOVED[inject], str(row.reason)), (dict(row.case), row.reason)


def asan() -> None:
    try:
        helper("zcopy-provider-asan")
    except SkippedError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("scatter", [False, True])
def test_the_sanitizer_catches_what_runs_long(scatter: bool, handoff: Handoff) -> None:
    asan()
    ran = handoff(inject="run-long", provider="asan", routes=("shared",), scatter=scatter)
    for row in ran.rows:
        assert row.outcome is Outcome.FAILED
        assert re.fullmatch(
            r"AddressSanitizer counted [1-9]\d* forbidden writes by the provider", str(row.reason)
        )
        assert int(str(row.extra["asan_reports"])) > 0


def test_a_writer_that_stays_inside_is_none_of_the_sanitizers(handoff: Handoff) -> None:
    asan()
    for row in handoff(inject="swap-kv", provider="asan", routes=("shared",)).rows:
        assert (row.outcome, row.extra["asan_reports"]) == (Outcome.FAILED, 0)
        assert row.reason == FIRST["swap-kv"]


def test_without_the_sanitizers_build_its_rows_are_skipped(
    handoff: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        raise SkippedError(f"this build has no {name}")

    monkeypatch.setattr("zcopy.probes.handoff.stage.helper", nothing)
    for row in handoff(provider="asan", routes=ROUTES).rows:
        assert (row.outcome, row.verified) == (Outcome.SKIPPED, None)
        assert row.reason == "this build has no zcopy-provider-asan"


def test_one_cell_has_no_stride_to_mistake(handoff: Handoff) -> None:
    with pytest.raises(UsageError, match="--inject stride needs at least 2 cells"):
        handoff(inject="stride", cells=1)


@pytest.mark.parametrize("inject", sorted(set(INJECTS) - {"stride"}))
def test_one_cell_is_enough_for_the_others(inject: str, handoff: Handoff) -> None:
    for row in handoff(inject=inject, cells=1, routes=ROUTES).rows:
        assert row.outcome is Outcome.FAILED, dict(row.case)
