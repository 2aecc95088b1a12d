"""What can be asked for, and which variants that means."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from zcopy.errors import UsageError
from zcopy.native.wire import Inject
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import INJECTS, ROUTES, HandoffParams, Length, lengths, variants

TINY = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])


def params(**changes: Any) -> HandoffParams:
    return replace(HandoffParams(TINY, (Length(10, 100),), state_dirs=("/disk",)), **changes)


@pytest.mark.parametrize(
    ("cells", "ctx", "expected"),
    [
        ((307, 4105), (), [(307, 4608), (4105, 8192)]),
        ((10, 20), (100,), [(10, 100), (20, 100)]),
        ((10, 20), (100, 200), [(10, 100), (20, 200)]),
        ((), (), []),
    ],
)
def test_lengths_pair_cells_and_ctx(
    cells: tuple[int, ...], ctx: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    assert lengths(cells, ctx) == tuple(Length(*each) for each in expected)


def test_ctx_must_be_one_or_as_many() -> None:
    with pytest.raises(UsageError, match="2 values for 3"):
        lengths((1, 2, 3), (10, 20))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reps": 0}, "--reps 0"),
        ({"reps": 1_000_001}, "--reps 1000001"),
        ({"deadline_ns": 0}, "--deadline"),
        ({"lengths": (Length(0, 10),)}, "--cells 0"),
        ({"lengths": (Length(-1, 10),)}, "--cells -1"),
        ({"lengths": (Length(11, 10),)}, "--cells 11 do not fit into --ctx 10"),
        ({"lengths": (Length(1, 10), Length(1, 1 << 31))}, "--ctx 2147483648"),
        ({"lengths": (Length(1, 1 << 40),)}, "--ctx 1099511627776"),
        (
            {"cache": replace(TINY, geometry=PRESETS["qwen3-4b"]), "lengths": (Length(1, 1 << 30),)},
            "region of 147456 GiB",
        ),
    ],
)
def test_absurd_sizes_are_wrong_words(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        params(**changes)
    assert said in caught.value.message


def test_the_fault_is_found_by_its_name() -> None:
    assert {params(inject=name).fault for name in INJECTS} == set(Inject) - {Inject.NONE}
    assert params().fault is Inject.NONE


def test_everything_that_decides_a_run_is_in_its_document() -> None:
    document = params(scatter=True, inject="short", kernel="base").document()
    assert json.loads(json.dumps(document)) == document
    assert document["rows"] == [[128, 128]] * 4
    assert (document["cells"], document["ctx"], document["seed"]) == ([10], [100], 1)
    changed = {
        "cache": replace(TINY, v_trans=True), "lengths": (Length(11, 100),), "routes": ("pipe",), "buffers": ("anon",),
        "regions": ("fresh",), "populate": ("map",), "passing": ("inherit",), "scatter": True, "reps": 9,
        "state_dirs": (), "provider": "asan", "provider_cmd": ("x",), "listen": "x", "inject": "short",
        "kernel": "base", "deadline_ns": 10**9, "seed": 2, "patience_ns": 1,
    }  # fmt: skip
    for name, value in changed.items():
        assert params(**{name: value}).document() != params().document(), name
    assert set(changed) == set(HandoffParams.__dataclass_fields__)


def ways(asked: HandoffParams, populates: bool = True) -> list[tuple[str, str, str | None, str | None]]:
    return [
        (each.route, each.region, each.populate, each.passing) for each in variants(asked, "memfd", populates)
    ]


def test_the_defaults_of_the_shared_route() -> None:
    """A reused region is populated and pre-read, as a server would; a fresh one is what it is."""
    assert ways(params(routes=("shared",))) == [
        ("shared", "reused", "prefault", "scm"),
        ("shared", "fresh", "none", "scm"),
    ]


def test_memory_that_is_there_at_once_has_nothing_to_populate() -> None:
    asked = params(routes=("shared",), populate=("none", "map", "prefault"))
    assert len(ways(asked)) == 6
    assert {populate for _, _, populate, _ in ways(asked, populates=False)} == {"none"}
    assert len(ways(asked, populates=False)) == 2


def test_ways_of_passing_multiply() -> None:
    asked = params(routes=("shared",), regions=("fresh",), passing=("scm", "inherit"))
    assert [passing for *_, passing in ways(asked)] == ["scm", "inherit"]


def test_every_folder_is_a_file_route_of_its_own() -> None:
    asked = params(routes=("file",), state_dirs=("/disk", "/memory"))
    found = [(each.region, each.state_dir) for each in variants(asked, "memfd", True)]
    assert found == [("reused", "/disk"), ("reused", "/memory"), ("fresh", "/disk"), ("fresh", "/memory")]


@pytest.mark.parametrize("regions", [("reused",), ("fresh",), ("reused", "fresh")])
def test_bounce_buffer_and_pipe_are_there_once(regions: tuple[str, ...]) -> None:
    asked = params(routes=("copy", "pipe"), regions=regions)
    assert ways(asked) == [("copy", "reused", None, None), ("pipe", "reused", None, None)]


def test_no_two_variants_are_the_same_case() -> None:
    asked = params(
        routes=ROUTES,
        populate=("none", "map", "prefault"),
        passing=("scm", "inherit"),
        state_dirs=("/a", "/b"),
    )
    cases = [json.dumps(each.case(asked, Length(10, 100))) for each in variants(asked, "memfd", True)]
    assert len(cases) == len(set(cases)) == 2 * 3 * 2 + 2 * 2 + 2


def test_a_case_says_what_was_asked_and_nothing_else() -> None:
    asked = params(routes=("copy",))
    (one,) = variants(asked, "memfd", True)
    assert one.case(asked, Length(10, 100)) == {
        "route": "copy", "buffer": "memfd", "region": "reused", "cells": 10, "ctx": 100, "model": "tiny",
        "type_k": "f16", "type_v": "f16", "v_trans": False, "scatter": False, "provider": "plain",
    }  # fmt: skip
