"""Files of zcopy's own writer, as `handoff --forge` makes them: whole, of known sizes, taken by their own server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zcopy.cli.inspect_server import server_of
from zcopy.native.rows import Layout
from zcopy.native.state import State
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.seqstate.against import objections
from zcopy.seqstate.state import inspect


def forged(path: Path, cache: Cache, cells: int) -> Path:
    """Its rows are holes: it takes no room."""
    tensors, size = cache.tensors(cells)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        State(cache.numbers, cache.rotation).save(fd, None, Layout(tensors, cells, size, [(0, cells)]))
    finally:
        os.close(fd)
    return path


@pytest.mark.parametrize(
    ("preset", "cells", "size"),
    [
        ("qwen3-4b", 307, 45_274_820),
        ("qwen3-4b", 4_105, 605_373_476),
        ("qwen3-4b", 16_399, 2_418_394_244),
        ("qwen3-30b-a3b", 307, 30_185_444),
        ("qwen3-30b-a3b", 4_105, 403_604_804),
        ("qwen3-30b-a3b", 16_399, 1_612_350_884),
    ],
)
def test_the_presets(preset: str, cells: int, size: int, tmp_path: Path) -> None:
    cache = Cache(PRESETS[preset], TYPES["f16"], TYPES["f16"])
    state = inspect(forged(tmp_path / "state", cache, cells))
    assert (state.verdict, state.size, state.cells, state.tokens) == ("whole", size, cells, cells)
    assert state.read_bytes < 13 * cells + 4000
    server = server_of(preset, tmp_path, ("f16", "f16"), False, 1, cells)
    assert objections(state, server) == []


@pytest.mark.parametrize(
    ("types", "v_trans", "rotation"),
    [
        (("q8_0", "q8_0"), False, (64, 64)),
        (("q4_0", "f16"), False, (64, 0)),
        (("f16", "f32"), True, (0, 0)),
        (("bf16", "q8_0"), False, (0, 64)),
    ],
)
def test_types(types: tuple[str, str], v_trans: bool, rotation: tuple[int, int], tmp_path: Path) -> None:
    cache = Cache(PRESETS["tiny"], TYPES[types[0]], TYPES[types[1]], v_trans, rotation)
    state = inspect(forged(tmp_path / "state", cache, 20))
    assert state.verdict == "whole"
    assert objections(state, server_of("tiny", tmp_path, types, v_trans, 1, None)) == []
    assert objections(state, server_of("tiny", tmp_path, ("f32", "f32"), v_trans, 1, None)) != []
