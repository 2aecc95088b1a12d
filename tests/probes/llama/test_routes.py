"""Both routes to a real decoder, which goes on as it must; and writers that are wrong, at which it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import Exit, Stopped
from zcopy.model import Outcome
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.llama.params import INJECTS

pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("nothing_left")]

TINY = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])
QWEN = Cache(PRESETS["qwen3-4b"], TYPES["f16"], TYPES["f16"])
CELLS = 40
Measure = Callable[..., Any]


def types(k: str, v: str) -> Cache:
    return Cache(PRESETS["tiny"], TYPES[k], TYPES[v])


@pytest.mark.parametrize("forge", [False, True])
@pytest.mark.parametrize(
    "cache", [TINY, replace(TINY, v_trans=True), types("f32", "bf16")], ids=["f16", "v_trans", "f32"]
)
def test_the_decoder_goes_on_from_both(forge: bool, cache: Cache, measure: Measure) -> None:
    ran = measure(forge=forge, cache=cache)
    assert [(row.case["route"], row.outcome, row.reason) for row in ran.rows] == [
        ("shared", Outcome.OK, None), ("file", Outcome.OK, None),
    ]  # fmt: skip
    shared, file = ran.rows
    size = 28 + 4 * CELLS + 8 + 12 * CELLS + 16 + 8 * 12 + CELLS * cache.cell_bytes
    assert (shared.bytes_copied, file.bytes_copied, file.extra["n_read"]) == (0, 2 * size, size)
    assert shared.bytes == file.bytes == CELLS * cache.cell_bytes
    for row in ran.rows:
        assert row.verified
        assert (row.extra["cache_n"], row.extra["prompt_n"], row.extra["expected_prompt_n"]) == (
            CELLS - 1,
            1,
            1,
        )
        assert (row.case["engine"], row.case["buffer"]) == ("llama", "memfd")
        assert row.extra["key"]["n_predict"] == 8
        assert str(row.extra["key"]["engine"]).startswith("xllamacpp ")
        assert row.extra["text"] == shared.extra["text"]


def test_what_each_route_says_of_itself(measure: Measure) -> None:
    ran = measure(reps=3)
    shared, file = ran.row("shared"), ran.row("file")
    assert set(shared.ns) == {"write", "wake", "first_token", "complete", "total"}
    assert set(file.ns) == {
        "save",
        "server_save",
        "restore",
        "server_restore",
        "transfer",
        "first_token",
        "complete",
        "total",
    }
    assert all(len(samples) == 3 for row in ran.rows for samples in row.ns.values())
    assert shared.extra["cells_preset"] is True
    assert "adopt" not in shared.ns
    assert "cells_preset" not in file.extra
    assert shared.extra["proof"]["link"] == "/memfd:zcopy-kv (deleted)"
    assert file.extra["prefill_ns"] > 0
    for i in range(3):
        one = {phase: samples[i] for phase, samples in file.ns.items()}
        assert one["total"] == one["save"] + one["restore"] + one["first_token"]
        assert one["server_restore"] <= one["restore"]
        assert shared.ns["total"][i] == shared.ns["wake"][i] + shared.ns["first_token"][i]


@pytest.mark.parametrize("inject", INJECTS)
@pytest.mark.parametrize("forge", [False, True])
def test_a_wrong_writer_turns_its_row_red(inject: str, forge: bool, measure: Measure) -> None:
    """By the bytes, and by what the decoder says: either alone would do."""
    ran = measure(inject=inject, forge=forge)
    shared = ran.row("shared")
    assert (shared.outcome, shared.verified, shared.gbps) == (Outcome.FAILED, False, None)
    assert "wrong row: layer 0 K cell 0" in str(shared.reason)
    assert "differ" in str(shared.reason).partition(";")[2]
    assert ran.row("file").outcome is Outcome.OK


@pytest.mark.parametrize("inject", ["", *INJECTS])
def test_the_36_layers_of_a_real_geometry(inject: str, measure: Measure) -> None:
    ran = measure(cells=307, ctx=4608, cache=QWEN, inject=inject, reps=1)
    assert ran.row("file").outcome is Outcome.OK
    assert ran.row("file").extra["n_read"] == 45_274_820
    shared = ran.row("shared")
    assert shared.extra["region_bytes"] == 679_477_248
    if inject:
        assert shared.outcome is Outcome.FAILED
        assert "the text differs from the file route's" in str(shared.reason)
    else:
        assert (shared.outcome, shared.reason, shared.extra["prompt_n"]) == (Outcome.OK, None, 1)


def test_rotated_caches_are_not_written_in_place(measure: Measure) -> None:
    ran = measure(cache=types("q8_0", "q8_0"))
    assert ran.row("shared").outcome is Outcome.REFUSED
    assert "Hadamard-rotated" in str(ran.row("shared").reason)
    assert ran.row("file").outcome is Outcome.OK


def test_a_forged_state_has_no_quantised_rows(measure: Measure) -> None:
    ran = measure(cache=types("q4_0", "f16"), forge=True, routes=("file",))
    assert ran.rows[0].outcome is Outcome.REFUSED
    assert "quantised rows must come from a prefill" in str(ran.rows[0].reason)


def test_memory_without_a_descriptor_takes_the_file(measure: Measure) -> None:
    ran = measure(buffers=("anon",))
    assert (ran.row("shared").outcome, ran.row("file").outcome) == (Outcome.REFUSED, Outcome.OK)
    assert ran.row("file").case["buffer"] == "server"


@pytest.mark.parametrize(("make", "kind", "again"), [("windowed", "window", 5), ("hybrid", "recurrent", 4)])
def test_models_of_several_caches_take_the_file(
    make: str, kind: str, again: int, measure: Measure, tmp_path: Path, toys: Any
) -> None:
    model = getattr(toys, make)(tmp_path / "toy.gguf")
    ran = measure(gguf=model, cells=307, ctx=1024)
    file = ran.row("file")
    assert (file.outcome, file.reason, file.extra["cache_kind"]) == (Outcome.OK, None, kind)
    assert file.extra["expected_prompt_n"] == again
    assert file.extra["prompt_n"] == again
    assert file.extra["cache_n"] == 307 - again
    assert file.bytes == file.extra["n_read"]
    assert file.case["buffer"] == "server"
    shared = ran.row("shared")
    assert (shared.outcome, "only the file route" in str(shared.reason)) == (Outcome.REFUSED, True)


def test_a_run_that_is_stopped_leaves_no_server(measure: Measure) -> None:
    def stop(what: str, *_: int) -> None:
        if "round 1" in what:
            raise Stopped(Exit.INTERRUPTED)

    with pytest.raises(Stopped):
        measure(progress=stop)
