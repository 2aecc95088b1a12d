"""Model files: what kind of cache a GGUF has, and one with random weights for a cache of a given shape."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zcopy.engines.llama.header import metadata
from zcopy.errors import SkippedError

VOCABULARY: Final = 512
# What a server processes anew of a prompt whose state it has restored, at most: the last token where attention is
# full; what lies behind its last context checkpoint where a window or a recurrent state cannot be cut back.
# Measured on build 11549: 1, 5 and 4.
AGAIN: Final = {"full": 1, "window": 5, "recurrent": 4, "unknown": 5}

_WINDOW: Final = ".attention.sliding_window"
_RECURRENT: Final = ("ssm.", "wkv.", "shortconv.")
_EMBEDDING: Final = 64
_FEED_FORWARD: Final = 64
_SPECIAL: Final = ("<unk>", "<s>", "</s>")
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3  # gguf.TokenType
_CONTEXT: Final = 1 << 20
_REVISION: Final = (
    1  # of what `random_model` writes: part of the file's name, so that an older one is not taken for it
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A cache's shape: layers all alike, and heads of `head` elements in K and V."""

    layers: int
    kv_heads: int
    head: int

    @property
    def name(self) -> str:
        return f"random-{self.layers}x{self.kv_heads}x{self.head}"


def random_model(shape: Shape, folder: Path, seed: int = 1) -> Path:
    """A model of llama's architecture with that cache and else as small as can be, kept in `folder`.

    Its text means nothing and depends on every K and V row. Made once: written aside and moved into place, so that
    two at once or a kill do no harm. Raises SkippedError without the package gguf, OSError where it cannot be written.
    """
    path = folder / f"{shape.name}-s{seed}-r{_REVISION}.gguf"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder, path.name)
    aside = folder / f".{path.name}.{os.getpid()}"
    try:
        _write(aside, shape, seed)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path


def _clear(folder: Path, name: str) -> None:
    """Removes what processes that are no more have left half written."""
    for aside in folder.glob(f".{name}.*"):
        if not Path("/proc", aside.suffix[1:]).exists():
            aside.unlink(missing_ok=True)


def cache_kind(path: Path) -> str:
    """What kind of cache a GGUF's header asks for: full, window or recurrent.

    Raises MeasurementError for a file that is not there or is not a whole GGUF header.
    """
    fields = metadata(path)
    if any(key.partition(".")[2].startswith(_RECURRENT) for key in fields):
        return "recurrent"
    window = any(value for key, value in fields.items() if key.endswith(_WINDOW))
    return "window" if window else "full"


def _gguf() -> Any:
    try:
        import gguf
    except ImportError:
        raise SkippedError("the package gguf is not installed", "pip install 'zcopy[llama]'") from None
    return gguf


def _write(path: Path, shape: Shape, seed: int) -> None:
    import numpy as np

    writer = _gguf().GGUFWriter(path, "llama")
    _describe(writer, shape)
    random = np.random.default_rng(seed)
    embedding, heads = _EMBEDDING, shape.kv_heads

    def weights(name: str, rows: int, columns: int) -> None:
        values = random.standard_normal((rows, columns), dtype=np.float32)
        writer.add_tensor(name, values / np.float32(columns**0.5))

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(embedding, np.float32))

    weights("token_embd.weight", VOCABULARY, embedding)
    norm("output_norm.weight")
    weights("output.weight", VOCABULARY, embedding)
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        norm(f"{block}attn_norm.weight")
        weights(f"{block}attn_q.weight", heads * shape.head, embedding)
        weights(f"{block}attn_k.weight", heads * shape.head, embedding)
        weights(f"{block}attn_v.weight", heads * shape.head, embedding)
        weights(f"{block}attn_output.weight", embedding, heads * shape.head)
        norm(f"{block}ffn_norm.weight")
        weights(f"{block}ffn_gate.weight", _FEED_FORWARD, embedding)
        weights(f"{block}ffn_up.weight", _FEED_FORWARD, embedding)
        weights(f"{block}ffn_down.weight", embedding, _FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, shape: Shape) -> None:
    """The header. The vocabulary has no byte tokens: half a character at an answer's end would be held back."""
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_EMBEDDING)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(shape.kv_heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    words = [*_SPECIAL, *(f"\u2581{i}" for i in range(VOCABULARY - len(_SPECIAL)))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([_UNKNOWN, _CONTROL, _CONTROL, *([_NORMAL] * (VOCABULARY - len(_SPECIAL)))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
