"""The geometry of a real model, from its GGUF header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zcopy.engines.llama.header import Value, metadata
from zcopy.errors import MeasurementError, UsageError
from zcopy.probes.handoff.geometry import MOST_LAYERS, Geometry


def read_geometry(path: Path) -> Geometry:
    """K and V rows of every layer that has attention.

    Raises UsageError where there is no such file, MeasurementError for one that is not a whole GGUF header or has no
    such cache.
    """
    if not path.is_file():
        raise UsageError(f"--model {path}: no such preset or file")
    try:
        return _geometry(path, _Header(metadata(path)))
    except ValueError as error:
        raise MeasurementError(f"{path} is the header of no model with a KV cache: {error}") from None


class _Header:
    """Fields by their name below the architecture's."""

    def __init__(self, fields: Mapping[str, Value]) -> None:
        self._fields = fields
        self._arch = fields.get("general.architecture")

    def numbers(self, name: str) -> list[int]:
        """Of each layer, or one for all; none where the field is not there. Raises ValueError for anything else."""
        value = self._fields.get(f"{self._arch}.{name}")
        if value is None:
            return []
        found = value if isinstance(value, tuple) else (value,)
        return [_whole(each, name) for each in found]

    def number(self, name: str) -> int:
        """The first layer's; 0 where the field is not there."""
        return next(iter(self.numbers(name)), 0)


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{name} is {value!r}")
    return value


def _geometry(path: Path, header: _Header) -> Geometry:
    layers = header.number("block_count")
    heads = header.numbers("attention.head_count_kv") or header.numbers("attention.head_count") or [0]
    # Each length has the default for itself: llama.cpp (src/llama-model.cpp) knows no value length "as the key".
    key = header.number("attention.key_length") or _head_size(header)
    value = header.number("attention.value_length") or _head_size(header)
    known = 0 < layers <= MOST_LAYERS and 0 < key <= 65536 and 0 < value <= 65536
    if not known or len(heads) not in (1, layers):
        raise ValueError(f"{layers} layers, {len(heads)} head counts, heads of {key} and {value}")
    per_layer = heads * layers if len(heads) == 1 else heads
    if not all(0 <= count <= 4096 for count in per_layer) or not any(per_layer):
        raise ValueError("no layer has attention, or its heads are absurd")
    rows = tuple((count * key, count * value) for count in per_layer if count)
    return Geometry(path.name, rows, key, value)


def _head_size(header: _Header) -> int:
    """Of the embedding, shared by the heads of the first layer; 0 where that has none."""
    heads = header.number("attention.head_count")
    return header.number("embedding_length") // heads if heads > 0 else 0
