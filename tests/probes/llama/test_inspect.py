"""`zcopy inspect` on what a real server has saved, of every kind of cache that the toys have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.engines.llama.model import Shape, random_model
from zcopy.engines.llama.slots import Slot
from zcopy.seqstate.sections import RecurrentSection
from zcopy.seqstate.state import inspect

pytestmark = pytest.mark.llama

Serve = Callable[..., Any]


@pytest.fixture
def saved(serve: Serve, tmp_path: Path) -> Callable[..., Path]:
    """The file that a server of this model saves after so many tokens."""

    def new(model: Path, tokens: int, **setup: Any) -> Path:
        slot = Slot(serve(tmp_path, model, **setup).client)
        if tokens:
            slot.prefill([3 + i * 7919 % 500 for i in range(tokens)])
        size = slot.save("saved.bin").bytes
        assert (tmp_path / "saved.bin").stat().st_size == size
        return tmp_path / "saved.bin"

    return new


@pytest.mark.parametrize("tokens", [0, 10, 307])
@pytest.mark.parametrize("types", [("f16", "f16"), ("q8_0", "q4_0"), ("f32", "bf16")])
def test_full_attention(tokens: int, types: tuple[str, str], saved: Any, models: Path) -> None:
    state = inspect(saved(random_model(Shape(2, 2, 64), models), tokens, types=types))
    assert (state.verdict, state.version, state.tokens, state.cells) == ("whole", 4, tokens, tokens)
    (section,) = state.sections
    assert section.rotation == (None if not tokens else (64, 64) if "q8_0" in types else (0, 0))  # type: ignore[union-attr]
    assert state.read_bytes < 200 + 40 * tokens


def test_v_transposed(saved: Any, models: Path) -> None:
    state = inspect(saved(random_model(Shape(2, 2, 64), models), 10, flash=False))
    assert (state.verdict, state.sections[0].v_trans) == ("whole", True)  # type: ignore[union-attr]


@pytest.mark.parametrize("tokens", [0, 10, 70])
def test_a_sliding_window(tokens: int, saved: Any, toys: Any, tmp_path: Path) -> None:
    state = inspect(saved(toys.windowed(tmp_path / "w.gguf"), tokens))
    assert (state.verdict, state.tokens) == ("whole", tokens)
    assert [section.layers for section in state.sections] == ([1, 5] if tokens else [0, 0])
    assert [section.cells for section in state.sections] == [tokens, min(tokens, 64)]
    assert len(state.checkpoints) == (1 if tokens else 0)


@pytest.mark.parametrize("tokens", [0, 10, 70])
def test_a_hybrid(tokens: int, saved: Any, toys: Any, tmp_path: Path) -> None:
    state = inspect(saved(toys.hybrid(tmp_path / "h.gguf"), tokens))
    assert (state.verdict, state.tokens) == ("whole", tokens)
    attention, recurrent = state.sections
    assert isinstance(recurrent, RecurrentSection)
    assert (attention.cells, len(recurrent.states), recurrent.layers) == (tokens, 4, 4)
    assert recurrent.last == (tokens - 1 if tokens else None)
    assert len(state.checkpoints) == (1 if tokens else 0)
