"""Random models whose caches are not one of full attention: a sliding window (gemma3) and a hybrid (jamba)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VOCABULARY, WIDTH = 512, 64


class Toy:
    """A GGUF being written, with the vocabulary of `random_model`."""

    def __init__(self, path: Path, arch: str, layers: int, seed: int) -> None:
        import gguf
        import numpy as np

        self.np, self.path = np, path
        self.writer = writer = gguf.GGUFWriter(path, arch)
        self.random = np.random.default_rng(seed)
        writer.add_context_length(1 << 17)
        writer.add_embedding_length(WIDTH)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(WIDTH)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_vocab_size(VOCABULARY)
        words = ["<unk>", "<s>", "</s>", *(f"\u2581{i}" for i in range(VOCABULARY - 3))]
        writer.add_tokenizer_model("llama")
        writer.add_token_list(words)
        writer.add_token_scores([0.0] * VOCABULARY)
        writer.add_token_types([2, 3, 3, *([1] * (VOCABULARY - 3))])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(False)

    def weights(self, name: str, *shape: int) -> None:
        values = self.random.standard_normal(shape) * shape[-1] ** -0.5
        self.add(name, values)

    def ones(self, name: str, size: int) -> None:
        self.add(name, self.np.ones(size))

    def add(self, name: str, values: Any) -> None:
        self.writer.add_tensor(name, values.astype(self.np.float32))

    def feed_forward(self, block: str) -> None:
        for part in ("gate", "up", "down"):
            self.weights(f"{block}ffn_{part}.weight", WIDTH, WIDTH)

    def attention(self, block: str, q: int, kv: int) -> None:
        for part, rows in (("q", q), ("k", kv), ("v", kv)):
            self.weights(f"{block}attn_{part}.weight", rows, WIDTH)
        self.weights(f"{block}attn_output.weight", WIDTH, q)

    def done(self) -> Path:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return self.path


def windowed(
    path: Path, window: int = 64, layers: int = 6, heads: int = 4, kv: int = 2, head: int = 32
) -> Path:
    toy = Toy(path, "gemma3", layers, 2)
    toy.writer.add_head_count(heads)
    toy.writer.add_head_count_kv(kv)
    toy.writer.add_key_length(head)
    toy.writer.add_value_length(head)
    toy.writer.add_sliding_window(window)
    toy.weights("token_embd.weight", VOCABULARY, WIDTH)
    toy.ones("output_norm.weight", WIDTH)
    for layer in range(layers):
        block = f"blk.{layer}."
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            toy.ones(f"{block}{norm}.weight", WIDTH)
        for norm in ("attn_q_norm", "attn_k_norm"):
            toy.ones(f"{block}{norm}.weight", head)
        toy.attention(block, heads * head, kv * head)
        toy.feed_forward(block)
    return toy.done()


def hybrid(
    path: Path, layers: int = 4, heads: int = 4, kv: int = 2, inner: int = 128, state: int = 16
) -> Path:
    conv, rank, head = 4, 8, WIDTH // heads
    toy = Toy(path, "jamba", layers, 3)
    toy.writer.add_head_count(heads)
    toy.writer.add_head_count_kv([kv if layer % 2 else 0 for layer in range(layers)])
    toy.writer.add_ssm_conv_kernel(conv)
    toy.writer.add_ssm_inner_size(inner)
    toy.writer.add_ssm_state_size(state)
    toy.writer.add_ssm_time_step_rank(rank)
    toy.weights("token_embd.weight", VOCABULARY, WIDTH)
    toy.weights("output.weight", VOCABULARY, WIDTH)
    toy.ones("output_norm.weight", WIDTH)
    for layer in range(layers):
        block = f"blk.{layer}."
        toy.ones(f"{block}attn_norm.weight", WIDTH)
        toy.ones(f"{block}ffn_norm.weight", WIDTH)
        if layer % 2:
            toy.attention(block, WIDTH, kv * head)
        else:
            _mamba(toy, block, inner, state, conv, rank)
        toy.feed_forward(block)
    return toy.done()


def _mamba(toy: Toy, block: str, inner: int, state: int, conv: int, rank: int) -> None:
    toy.weights(f"{block}ssm_in.weight", 2 * inner, WIDTH)
    toy.weights(f"{block}ssm_conv1d.weight", inner, conv)
    toy.ones(f"{block}ssm_conv1d.bias", inner)
    toy.weights(f"{block}ssm_x.weight", rank + 2 * state, inner)
    toy.ones(f"{block}ssm_dt_norm.weight", rank)
    toy.weights(f"{block}ssm_dt.weight", inner, rank)
    toy.ones(f"{block}ssm_dt.bias", inner)
    toy.ones(f"{block}ssm_b_norm.weight", state)
    toy.ones(f"{block}ssm_c_norm.weight", state)
    toy.add(f"{block}ssm_a", -toy.np.ones((inner, state)))
    toy.ones(f"{block}ssm_d", inner)
    toy.weights(f"{block}ssm_out.weight", WIDTH, inner)
