"""What the models have in common."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

_SPEC = importlib.util.spec_from_file_location(
    "llama_toys", Path(__file__).parents[2] / "probes/llama/toys.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
toys: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(toys)

WIDTH, VOCABULARY = toys.WIDTH, toys.VOCABULARY
HEADS, HEAD = 2, 32


def begin(path: Path, arch: str, layers: int, kv_heads: int | list[int] = HEADS) -> Any:
    toy = toys.Toy(path, arch, layers, 7)
    toy.writer.add_head_count(HEADS)
    toy.writer.add_head_count_kv(kv_heads)
    toy.weights("token_embd.weight", VOCABULARY, WIDTH)
    return toy


def ends(toy: Any) -> None:
    toy.weights("output.weight", VOCABULARY, WIDTH)
    toy.ones("output_norm.weight", WIDTH)


def block(toy: Any, layer: int, *norms: str) -> str:
    """What the names of a layer's tensors begin with. Its norms are added."""
    name = f"blk.{layer}."
    for norm in norms or ("attn_norm.weight", "ffn_norm.weight"):
        toy.ones(f"{name}{norm}", WIDTH)
    return name


def add(toy: Any, key: str, value: Any) -> None:
    name = f"{toy.writer.arch}.{key}"
    if isinstance(value, list):
        toy.writer.add_array(name, value)
    else:
        toy.writer.add_uint32(name, value)


def experts(toy: Any) -> None:
    toy.writer.add_expert_count(2)
    toy.writer.add_expert_used_count(1)
    toy.writer.add_expert_feed_forward_length(WIDTH)
    toy.writer.add_expert_shared_count(1)
    toy.writer.add_expert_weights_scale(1.0)
