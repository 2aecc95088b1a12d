"""Which caches llama.cpp makes for a model, as far as its GGUF header tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zcopy.engines.llama.header import Value, metadata
from zcopy.errors import MeasurementError, UsageError

_MOST_LAYERS: Final = 4096
_MOST_HEADS: Final = 4096
_MOST_HEAD: Final = 65536
_MOST: Final = 1 << 32
_RECURRENT: Final = ("ssm.", "wkv.", "shortconv.")
# Linear attention in all layers but each n-th, where the header does not name n.
_INTERVAL: Final = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
_WINDOW_UNUSED: Final = ("phi3",)  # its header has a window that llama.cpp leaves alone


@dataclass(frozen=True, slots=True)
class Caches:
    """`rows`: elements of K and V of each layer that has attention, a V of 0 where none is kept.

    `heads`: sizes of a K and a V head. `mrope`: whether positions have more than one number. `window`, `indexer`:
    whether layers with a sliding window, or the indexer of sparse attention, have a cache of their own. `recurrent`:
    how many layers a model with recurrent states has, those without a state included; `states`: elements of the two
    states of a layer, None where the header does not tell.
    """

    name: str
    rows: tuple[tuple[int, int], ...]
    heads: tuple[int, int]
    mrope: bool = False
    window: bool = False
    indexer: bool = False
    recurrent: int | None = None
    states: tuple[int, int] | None = None


def read_caches(path: Path) -> Caches:
    """Raises UsageError where there is no such file, MeasurementError for what is no whole GGUF header of a model."""
    if not path.is_file():
        raise UsageError(f"--against {path}: no such preset or file")
    try:
        return _Header(metadata(path)).caches(path.name)
    except ValueError as error:
        raise MeasurementError(f"{path} is the header of no model: {error}") from None


class _Header:
    """Fields by their name below the architecture's. ValueError for numbers that no model has."""

    def __init__(self, fields: Mapping[str, Value]) -> None:
        self._fields = fields
        self._arch = str(fields.get("general.architecture"))
        self._layers = self._number("block_count", _MOST_LAYERS) - self._number(
            "nextn_predict_layers", _MOST_LAYERS
        )
        if self._layers < 1:
            raise ValueError(f"{self._layers} layers")

    def caches(self, name: str) -> Caches:
        mla = self._field("attention.key_length_mla") is not None
        head = self._head_size()
        key = self._number("attention.key_length", _MOST_HEAD) or head
        value = self._number("attention.value_length", _MOST_HEAD) or head
        key_window = self._number("attention.key_length_swa", _MOST_HEAD) or key
        value_window = self._number("attention.value_length_swa", _MOST_HEAD) or value
        rows = []
        for count, windowed in self._attention():
            k, v = (key_window, value_window) if windowed else (key, value)
            rows.append((count * k, 0 if mla else count * v))
        return Caches(
            name=name,
            rows=tuple(rows),
            heads=(key, value) if (key, value) == (key_window, value_window) else (0, 0),
            mrope=sum(each > 0 for each in self._numbers("rope.dimension_sections", _MOST_HEAD)) > 1,
            window=self._number("attention.sliding_window", _MOST) > 0 and self._arch not in _WINDOW_UNUSED,
            indexer=self._number("attention.indexer.key_length", _MOST_HEAD) > 0,
            recurrent=self._layers if self._recurrent() else None,
            states=self._states(),
        )

    def _states(self) -> tuple[int, int] | None:
        """As llama.cpp's hparams (n_embd_r, n_embd_s) have them."""
        width = self._number("embedding_length", _MOST)
        if kept := self._number("shortconv.l_cache", _MOST_HEAD):
            return width * (kept - 1), 0
        if head := self._number("wkv.head_size", _MOST_HEAD):
            return width * (self._number("token_shift_count", _MOST_HEAD) or 2), width * head
        names = ("conv_kernel", "inner_size", "state_size", "group_count")
        kernel, inner, state, groups = (self._number(f"ssm.{name}", _MOST) for name in names)
        if not kernel or not inner or not state:
            return None
        return (kernel - 1) * (inner + 2 * groups * state), state * inner

    def _attention(self) -> list[tuple[int, bool]]:
        """Of each layer with K and V of its own: its KV heads, and whether it has the window's sizes."""
        heads = (
            self._numbers("attention.head_count_kv", _MOST_HEADS)
            or self._numbers("attention.head_count", _MOST_HEADS)
            or [0]
        )
        heads = heads * self._layers if len(heads) == 1 else heads
        if len(heads) < self._layers:
            raise ValueError(f"head counts of {len(heads)} layers of {self._layers}")
        windowed = self._windowed()
        own = self._layers - self._number("attention.shared_kv_layers", _MOST_LAYERS)
        interval = (
            self._number("full_attention_interval", _MOST_LAYERS) or _INTERVAL.get(self._arch, 1)
            if self._recurrent()
            else 1
        )
        return [
            (heads[layer], windowed[layer])
            for layer in range(own)
            if heads[layer] and (layer + 1) % interval == 0
        ]

    def _windowed(self) -> list[bool]:
        pattern = self._numbers("attention.sliding_window_pattern", _MOST_LAYERS)
        if len(pattern) == 1 and (every := pattern[0]) > 1:
            return [layer % every < every - 1 for layer in range(self._layers)]
        return [bool(each) for each in pattern[: self._layers]] + [False] * (self._layers - len(pattern))

    def _recurrent(self) -> bool:
        return any(key.partition(".")[2].startswith(_RECURRENT) for key in self._fields)

    def _head_size(self) -> int:
        heads = self._numbers("attention.head_count", _MOST_HEADS)
        return self._number("embedding_length", _MOST) // max(1, *heads, 1)

    def _number(self, name: str, most: int) -> int:
        """0 where it is not there."""
        numbers = self._numbers(name, most)
        return numbers[0] if numbers else 0

    def _numbers(self, name: str, most: int) -> list[int]:
        value = self._field(name)
        if value is None:
            return []
        values = value if isinstance(value, tuple) else (value,)
        numbers = [int(each) for each in values if isinstance(each, int) and 0 <= each <= most]
        if len(numbers) < len(values):
            raise ValueError(f"{name} is {values if len(values) < 8 else 'out of range'}")
        return numbers

    def _field(self, name: str) -> Value:
        return self._fields.get(f"{self._arch}.{name}")
