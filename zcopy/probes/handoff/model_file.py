"""The geometry of a real model, from its GGUF header (the `gguf` package: extra `zcopy[models]`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zcopy.errors import MeasurementError, UsageError
from zcopy.probes.handoff.geometry import MOST_LAYERS, Geometry


def read_geometry(path: Path) -> Geometry:
    """K and V rows of every layer that has attention.

    Raises UsageError where the file or the gguf package is not there, MeasurementError for a file that is not a
    whole GGUF header or has no such cache.
    """
    if not path.is_file():
        raise UsageError(f"--model {path}: no such preset or file")
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UsageError(
            "reading a GGUF file needs the gguf package", "pip install 'zcopy[models]'"
        ) from error
    try:
        reader = GGUFReader(path)
        return _geometry(path, _Header(reader))
    except UsageError:
        raise
    except Exception as error:  # the parser meets a hostile file with whatever exception it runs into
        raise MeasurementError(f"{path} is no whole GGUF header: {type(error).__name__}: {error}") from error


class _Header:
    """Fields by their name below the architecture's."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._arch = str(self._value("general.architecture"))

    def numbers(self, name: str) -> list[int] | None:
        value = self._value(f"{self._arch}.{name}")
        if value is None:
            return None
        return [int(each) for each in (value if isinstance(value, Sequence) else [value])]

    def number(self, name: str) -> int | None:
        values = self.numbers(name)
        return values[0] if values else None

    def _value(self, name: str) -> Any:
        field = self._reader.get_field(name)
        return None if field is None else field.contents()


def _geometry(path: Path, header: _Header) -> Geometry:
    layers = header.number("block_count") or 0
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
    width, heads = header.number("embedding_length") or 0, header.number("attention.head_count") or 1
    return width // max(1, heads)
