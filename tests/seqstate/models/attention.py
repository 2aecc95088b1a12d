"""Models of attention: M-RoPE, windows, latent attention, an indexer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import parts
from .parts import HEAD, HEADS, WIDTH


def full(path: Path) -> Path:
    from zcopy.engines.llama.model import Shape, random_model

    return random_model(Shape(2, 2, 64), path.parent)


def mrope(path: Path, layers: int = 2) -> Path:
    toy = parts.begin(path, "qwen2vl", layers)
    toy.writer.add_rope_dimension_sections([8, 4, 4, 0])
    parts.ends(toy)
    for layer in range(layers):
        block = parts.block(toy, layer)
        toy.attention(block, HEADS * HEAD, HEADS * HEAD)
        toy.feed_forward(block)
        for part in "qkv":
            toy.ones(f"{block}attn_{part}.bias", HEADS * HEAD)
    return toy.done()  # type: ignore[no-any-return]


def unequal(path: Path, layers: int = 4, key: int = 32, value: int = 16) -> Path:
    """K and V heads of different sizes, with a window in every other layer."""
    toy = parts.begin(path, "plamo3", layers)
    toy.writer.add_key_length(key)
    toy.writer.add_value_length(value)
    toy.writer.add_rope_dimension_count(key)
    toy.writer.add_sliding_window(64)
    toy.writer.add_sliding_window_pattern([layer % 2 == 0 for layer in range(layers)])
    parts.ends(toy)
    for layer in range(layers):
        block = parts.block(
            toy, layer, "attn_norm.weight", "post_attention_norm", "ffn_norm.weight", "post_ffw_norm"
        )
        toy.weights(f"{block}attn_qkv.weight", HEADS * (2 * key + value), WIDTH)
        toy.ones(f"{block}attn_q_norm.weight", key)
        toy.ones(f"{block}attn_k_norm.weight", key)
        toy.weights(f"{block}attn_output.weight", WIDTH, HEADS * value)
        toy.weights(f"{block}ffn_up.weight", 2 * WIDTH, WIDTH)
        toy.weights(f"{block}ffn_down.weight", WIDTH, WIDTH)
    return toy.done()  # type: ignore[no-any-return]


def shared(path: Path) -> Path:
    """A window in four of six layers, whose heads have sizes of their own; the last three have no K and V."""
    windowed = [True, True, False] * 2
    toy = parts.begin(path, "gemma4", len(windowed), [2 if each else 1 for each in windowed])
    toy.writer.add_key_length(64)
    toy.writer.add_value_length(64)
    toy.writer.add_rope_dimension_count(64)
    toy.writer.add_sliding_window(64)
    toy.writer.add_sliding_window_pattern(windowed)
    for key, value in (
        ("attention.key_length_swa", 32), ("attention.value_length_swa", 32), ("rope.dimension_count_swa", 32),
        ("attention.shared_kv_layers", 3), ("embedding_length_per_layer_input", 0),
    ):  # fmt: skip
        parts.add(toy, key, value)
    toy.writer.add_float32("gemma4.rope.freq_base_swa", 10000.0)
    toy.ones("output_norm.weight", WIDTH)
    toy.ones("rope_freqs.weight", 32)
    for layer, small in enumerate(windowed):
        norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        block = parts.block(toy, layer, *(f"{norm}.weight" for norm in norms))
        head, kv_heads = (32, 2) if small else (64, 1)
        toy.ones(f"{block}attn_q_norm.weight", head)
        toy.ones(f"{block}attn_k_norm.weight", head)
        toy.attention(block, HEADS * head, kv_heads * head)
        toy.feed_forward(block)
        toy.ones(f"{block}layer_output_scale.weight", 1)
    return toy.done()  # type: ignore[no-any-return]


def latent(path: Path, arch: str = "deepseek2", layers: int = 2, rank: int = 40) -> Path:
    """Latent attention (MLA): no V is kept; as glm-dsa with an indexer."""
    rope = plain = 16
    toy = parts.begin(path, arch, layers, 1)
    writer = toy.writer
    writer.add_key_length(rank + rope)
    writer.add_value_length(rank)
    writer.add_key_length_mla(plain + rope)
    writer.add_value_length_mla(HEAD)
    writer.add_kv_lora_rank(rank)
    writer.add_q_lora_rank(HEAD)
    writer.add_rope_dimension_count(rope)
    writer.add_leading_dense_block_count(layers)
    parts.experts(toy)
    parts.add(toy, "expert_gating_func", 2)
    if arch == "glm-dsa":
        for key, value in (("head_count", 2), ("key_length", 64), ("top_k", 8)):
            parts.add(toy, f"attention.indexer.{key}", value)
    parts.ends(toy)
    for layer in range(layers):
        block = parts.block(toy, layer)
        toy.feed_forward(block)
        _latent_attention(toy, block, rank, rope, plain)
        if arch == "glm-dsa":
            _indexer(toy, block)
    return toy.done()  # type: ignore[no-any-return]


def _latent_attention(toy: Any, block: str, rank: int, rope: int, plain: int) -> None:
    toy.ones(f"{block}attn_kv_a_norm.weight", rank)
    toy.ones(f"{block}attn_q_a_norm.weight", HEAD)
    toy.weights(f"{block}attn_q_a.weight", HEAD, WIDTH)
    toy.weights(f"{block}attn_q_b.weight", HEADS * (plain + rope), HEAD)
    toy.weights(f"{block}attn_kv_a_mqa.weight", rank + rope, WIDTH)
    toy.weights(f"{block}attn_k_b.weight", HEADS, rank, plain)
    toy.weights(f"{block}attn_v_b.weight", HEADS, HEAD, rank)
    toy.weights(f"{block}attn_output.weight", WIDTH, HEADS * HEAD)


def _indexer(toy: Any, block: str, heads: int = 2, key: int = 64) -> None:
    toy.ones(f"{block}indexer.k_norm.weight", key)
    toy.ones(f"{block}indexer.k_norm.bias", key)
    toy.weights(f"{block}indexer.proj.weight", heads, WIDTH)
    toy.weights(f"{block}indexer.attn_k.weight", key, WIDTH)
    toy.weights(f"{block}indexer.attn_q_b.weight", heads * key, HEAD)


def indexed(path: Path) -> Path:
    return latent(path, "glm-dsa", rank=48)
