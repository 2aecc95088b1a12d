"""Models with recurrent states: alone, beside attention, and with an indexer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import parts
from .parts import HEAD, HEADS, VOCABULARY, WIDTH, toys


def short_convolution(path: Path, layers: int = 4, kept: int = 3) -> Path:
    """A hybrid whose recurrent layers have one state only."""
    toy = parts.begin(path, "lfm2", layers, [HEADS if layer % 2 else 0 for layer in range(layers)])
    toy.writer.add_shortconv_l_cache(kept)
    toy.ones("token_embd_norm.weight", WIDTH)
    for layer in range(layers):
        block = parts.block(toy, layer)
        toy.feed_forward(block)
        if layer % 2:
            toy.ones(f"{block}attn_q_norm.weight", HEAD)
            toy.ones(f"{block}attn_k_norm.weight", HEAD)
            toy.attention(block, HEADS * HEAD, HEADS * HEAD)
        else:
            toy.weights(f"{block}shortconv.conv.weight", WIDTH, kept)
            toy.weights(f"{block}shortconv.in_proj.weight", 3 * WIDTH, WIDTH)
            toy.weights(f"{block}shortconv.out_proj.weight", WIDTH, WIDTH)
    return toy.done()  # type: ignore[no-any-return]


def recurrent(path: Path, layers: int = 3, inner: int = 128, state: int = 16, rank: int = 8) -> Path:
    """Recurrent states and nothing else."""
    toy = toys.Toy(path, "mamba", layers, 8)
    toy.writer.add_head_count(0)
    toy.writer.add_ssm_conv_kernel(4)
    toy.writer.add_ssm_inner_size(inner)
    toy.writer.add_ssm_state_size(state)
    toy.writer.add_ssm_time_step_rank(rank)
    toy.weights("token_embd.weight", VOCABULARY, WIDTH)
    parts.ends(toy)
    for layer in range(layers):
        block = parts.block(toy, layer, "attn_norm.weight")
        for name, *shape in (
            ("in", 2 * inner, WIDTH), ("conv1d", inner, 4), ("x", rank + 2 * state, inner), ("dt", inner, rank),
            ("out", WIDTH, inner),
        ):  # fmt: skip
            toy.weights(f"{block}ssm_{name}.weight", *shape)
        toy.ones(f"{block}ssm_conv1d.bias", inner)
        toy.ones(f"{block}ssm_dt.bias", inner)
        toy.ones(f"{block}ssm_d", inner)
        toy.add(f"{block}ssm_a", -toy.np.ones((inner, state)))
    return toy.done()  # type: ignore[no-any-return]


K_HEADS, V_HEADS, STATE, CONV = 2, 4, 16, 4  # of linear attention
MIXED = 2 * K_HEADS * STATE + V_HEADS * STATE


def _delta_net(toy: Any, layers: int) -> None:
    writer = toy.writer
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(16)
    writer.add_rope_dimension_sections([4, 2, 2, 0])
    writer.add_ssm_conv_kernel(CONV)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_group_count(K_HEADS)
    writer.add_ssm_time_step_rank(V_HEADS)
    writer.add_ssm_inner_size(V_HEADS * STATE)
    parts.add(toy, "full_attention_interval", 2)
    for layer in range(layers):
        block = f"blk.{layer}."
        if layer % 2:
            toy.weights(f"{block}attn_q.weight", 2 * HEADS * HEAD, WIDTH)
            toy.weights(f"{block}attn_k.weight", HEAD, WIDTH)
            toy.weights(f"{block}attn_v.weight", HEAD, WIDTH)
            toy.weights(f"{block}attn_output.weight", WIDTH, HEADS * HEAD)
            toy.ones(f"{block}attn_q_norm.weight", HEAD)
            toy.ones(f"{block}attn_k_norm.weight", HEAD)
        else:
            _linear_attention(toy, block)


def _linear_attention(toy: Any, block: str) -> None:
    value = V_HEADS * STATE
    for name, *shape in (
        ("attn_qkv", MIXED, WIDTH), ("attn_gate", value, WIDTH), ("ssm_conv1d", MIXED, CONV),
        ("ssm_beta", V_HEADS, WIDTH), ("ssm_alpha", V_HEADS, WIDTH), ("ssm_out", WIDTH, value),
    ):  # fmt: skip
        toy.weights(f"{block}{name}.weight", *shape)
    toy.ones(f"{block}ssm_norm.weight", STATE)
    toy.ones(f"{block}ssm_dt.bias", V_HEADS)
    toy.add(f"{block}ssm_a", -toy.np.ones(V_HEADS))


def mrope_hybrid(path: Path, layers: int = 4) -> Path:
    toy = parts.begin(path, "qwen35", layers, 1)
    _delta_net(toy, layers)
    parts.ends(toy)
    for layer in range(layers):
        toy.feed_forward(parts.block(toy, layer, "attn_norm.weight", "post_attention_norm.weight"))
    return toy.done()  # type: ignore[no-any-return]


def indexed_hybrid(path: Path, layers: int = 4, streams: int = 2, rank: int = 16, key: int = 32) -> Path:
    """Linear attention, an indexer, and a layer with n-gram embeddings, whose convolution has a history."""
    toy = parts.begin(path, "qwen4exp", layers, 1)
    _delta_net(toy, layers)
    parts.experts(toy)
    wide = streams * WIDTH
    for name, value in (
        ("hyper_connection.count", streams), ("hyper_connection.low_rank", rank),
        ("attention.indexer.head_count", 2), ("attention.indexer.key_length", key),
        ("attention.indexer.top_k", 8), ("attention.compress_ratios", [4] * layers),
        ("expert_shared_feed_forward_length", WIDTH),
    ):  # fmt: skip
        parts.add(toy, name, value)
    _ngrams(toy, wide)
    toy.weights("output.weight", VOCABULARY, WIDTH)
    toy.ones("output_hc_norm.weight", wide)
    toy.weights("output_hc_down.weight", rank, wide)
    toy.weights("output_hc_up.weight", wide, rank)
    for layer in range(layers):
        block = f"blk.{layer}."
        _wide_layer(toy, block, streams, rank)
        if layer % 2:
            toy.weights(f"{block}indexer.q_proj.weight", 2 * key, WIDTH)
            toy.weights(f"{block}indexer.k_proj.weight", key, WIDTH)
            toy.ones(f"{block}indexer.q_norm.weight", key)
            toy.ones(f"{block}indexer.k_norm.weight", key)
    return toy.done()  # type: ignore[no-any-return]


def _ngrams(toy: Any, wide: int, kernel: int = 3) -> None:
    """In layer 0."""
    import gguf

    for name, value in (
        ("ngram_size", 2), ("heads_per_ngram", 2), ("conv_kernel", kernel), ("eos_token_id", 2), ("layers", [0]),
    ):  # fmt: skip
        parts.add(toy, f"ple.{name}", value)
    parts.add(toy, "embedding_length_per_layer_input", WIDTH // 2)
    for name, values in (
        ("layer_multipliers", [3, 5]),
        ("head_offsets", [0, 50]),
        ("head_vocab_sizes", [50, 50]),
    ):
        kind = gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT64
        toy.writer.add_key_value(f"{toy.writer.arch}.ple.{name}", values, *kind)
    toy.weights("per_layer_token_embd.weight", 100, WIDTH // 2)
    toy.weights("blk.0.ple_key.weight", wide, WIDTH)
    toy.weights("blk.0.ple_value.weight", WIDTH, WIDTH)
    toy.weights("blk.0.ple_conv1d.weight", wide, kernel)
    for name in ("key", "query", "conv"):
        toy.ones(f"blk.0.ple_norm_{name}.weight", wide)


def _wide_layer(toy: Any, block: str, streams: int, rank: int) -> None:
    """Hyper-connections and experts."""
    wide = streams * WIDTH
    for part in ("attn", "ffn"):
        toy.ones(f"{block}hc_{part}_norm.weight", wide)
        toy.weights(f"{block}hc_{part}_down.weight", rank, wide)
        toy.weights(f"{block}hc_{part}_up.weight", wide, rank)
        toy.weights(f"{block}hc_{part}_inject.weight", streams, wide)
    toy.weights(f"{block}ffn_gate_inp.weight", 2, WIDTH)
    toy.ones(f"{block}ffn_gate_inp_shexp.weight", WIDTH)
    for part in ("gate", "up", "down"):
        toy.weights(f"{block}ffn_{part}_exps.weight", 2, WIDTH, WIDTH)
        toy.weights(f"{block}ffn_{part}_shexp.weight", WIDTH, WIDTH)
