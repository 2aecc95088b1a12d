"""docs/handoff.md has every phase, key and preset that a real run shows, and none that it does not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from zcopy.model import Row
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import INJECTS, POPULATES, ROUTES

ASAN_ONLY = {"asan_reports"}
DMABUF_ONLY = {"sync"}
CONTRACT = set(Row({}).document())


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every route and way of the tiny preset on memfd, once each."""
    words = "handoff --model tiny --cells 64 --route all --populate all --reps 1 --json --no-save --no-lock"
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [sys.executable, "-m", "zcopy", *words.split()],
        env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)}, cwd=home,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return found


@pytest.fixture
def handoff(doc: Callable[[str], Any]) -> Any:
    return doc("docs/handoff.md")


def first_cells(handoff: Any, head: str) -> set[str]:
    return {cells[0] for cells in handoff.cells(head)}


def test_phases(rows: list[dict[str, Any]], handoff: Any) -> None:
    seen = {phase for row in rows for phase in row["ns"]}
    assert first_cells(handoff, "phase") == seen | DMABUF_ONLY


def test_phases_of_each_route(rows: list[dict[str, Any]], handoff: Any) -> None:
    for phase, routes, *_ in handoff.cells("phase"):
        if phase not in DMABUF_ONLY:
            seen = {row["case"]["route"] for row in rows if phase in row["ns"]}
            assert seen == (set(ROUTES) if routes == "all" else set(routes.split(", "))), phase


def test_row_keys(rows: list[dict[str, Any]], handoff: Any) -> None:
    seen = {key for row in rows for key in row} - CONTRACT
    assert first_cells(handoff, "key") - CONTRACT == seen | ASAN_ONLY


def test_totals_are_the_sums_that_the_page_gives(rows: list[dict[str, Any]], handoff: Any) -> None:
    sums = {cells[0]: cells[1] for cells in handoff.cells("route, region")}
    for row in rows:
        route, region = row["case"]["route"], row["case"]["region"]
        sum_ = sums.get(f"{route}, {region}") or sums[route]
        ns = {phase: samples[-1] for phase, samples in row["ns"].items()}
        assert ns["total"] == evaluated(sum_, ns), f"{route}, {region}"


def evaluated(sum_: str, ns: dict[str, int]) -> int:
    """The value of a sum of phases as the page writes it; a phase that the row has not is 0."""
    python = re.sub(r"\((.*), at least 0\)", r"max(0, \1)", sum_.replace("−", "-"))  # noqa: RUF001
    python = re.sub(r"`(\w+)`", lambda match: str(ns.get(match[1], 0)), python)
    return int(eval(python, {"max": max, "__builtins__": {}}))


def test_what_is_copied_is_what_the_page_says(rows: list[dict[str, Any]]) -> None:
    times = {"shared": 0, "copy": 1, "pipe": 2}
    for row in rows:
        route = row["case"]["route"]
        expected = row["n_read"] * 2 if route == "file" else row["bytes"] * times[route]
        assert row["bytes_copied"] == expected


def test_choices(handoff: Any) -> None:
    assert [cells[0] for cells in handoff.cells("`--route`")] == list(ROUTES)
    assert [cells[0] for cells in handoff.cells("`--populate`")] == list(POPULATES)
    assert [cells[0] for cells in handoff.cells("`--inject`")] == list(INJECTS)


def test_presets(handoff: Any) -> None:
    told = [[name, layers, row, size] for name, layers, row, size in handoff.cells("preset")]
    assert told == [
        [
            name,
            str(len(geometry.rows)),
            f"{geometry.rows[0][0]} elements",
            str(Cache(geometry, TYPES["f16"], TYPES["f16"]).cell_bytes),
        ]
        for name, geometry in PRESETS.items()
    ]
