"""The sections of a state as values: caches of K and V rows, and the states of recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeAlias

from zcopy.seqstate.cells import Cells
from zcopy.seqstate.reader import Fault, OddError

MOST_LAYERS: Final = 4096
MOST_TYPE: Final = 255  # ggml has some forty types
_MOST_ROW: Final = 1 << 32
TENSOR_HEAD: Final = 12  # bytes: type and row size; transposed: type, element size and channels


class CacheType(NamedTuple):
    """A ggml type that caches have: its name, and elements and bytes of a block."""

    name: str
    block: int
    block_bytes: int


CACHE_TYPES: Final = {
    0: CacheType("f32", 1, 4),
    1: CacheType("f16", 1, 2),
    2: CacheType("q4_0", 32, 18),
    3: CacheType("q4_1", 32, 20),
    6: CacheType("q5_0", 32, 22),
    7: CacheType("q5_1", 32, 24),
    8: CacheType("q8_0", 32, 34),
    20: CacheType("iq4_nl", 32, 18),
    30: CacheType("bf16", 1, 2),
}
"""By ggml's number of the type (ggml.h): those that llama.cpp has for --cache-type-k and --cache-type-v."""


class Tensor(NamedTuple):
    """ggml's type number and the bytes of one cell's row (of a recurrent layer: of one state)."""

    type: int
    row_bytes: int

    @property
    def type_name(self) -> str:
        """ggml's name of the type, or its number."""
        known = CACHE_TYPES.get(self.type)
        return known.name if known else f"type {self.type}"


@dataclass(frozen=True, slots=True)
class KvSection:
    """K and V of some layers, over one or more streams of cells. What the file does not get to is not in the lists."""

    kind: ClassVar[str] = "attention"
    at: int
    mrope: bool
    streams: tuple[Cells, ...] = ()
    v_trans: bool | None = None
    layers: int = 0
    rotation: tuple[int, int] | None = None
    k: tuple[Tensor, ...] = ()
    v: tuple[Tensor, ...] = ()
    has_v: bool = True

    @property
    def cells(self) -> int:
        return sum(each.count for each in self.streams)

    @property
    def last(self) -> int | None:
        """The highest position of a cell."""
        return max((each.last for each in self.streams if each.last is not None), default=None)


@dataclass(frozen=True, slots=True)
class RecurrentSection:
    """The states of recurrent layers: `r` (convolution), one for a layer and a cell, then as many `s` (state space).

    `history`: bytes of an n-gram embedding's convolution, which the one layer that has it keeps behind its `r`.
    """

    kind: ClassVar[str] = "recurrent"
    at: int
    cells: int = 0
    last: int | None = None  # position of the last cell
    layers: int = 0  # of the model, those without a state included
    states: tuple[Tensor, ...] = ()
    history: int | None = None


Section: TypeAlias = KvSection | RecurrentSection


@dataclass(frozen=True, slots=True)
class Part:
    """A section as far as it is there.

    `end` is where it ends. Where `fault` cut it, it is where it would end, and `exact` is false if that takes the
    missing layers to be like the last one that is there; None where nothing tells.
    """

    section: Section
    end: int | None
    fault: Fault | None = None
    exact: bool = True


def check_tensor(tensor: Tensor, what: str, least: int = 1) -> None:
    """Raises OddError for a type or a row that no tensor has, and for a row that is not whole blocks of its type."""
    known = CACHE_TYPES.get(tensor.type)
    whole = known is None or tensor.row_bytes % known.block_bytes == 0
    if not (0 <= tensor.type <= MOST_TYPE and least <= tensor.row_bytes < _MOST_ROW and whole):
        raise OddError(f"{what}: {tensor.type_name} with rows of {tensor.row_bytes} bytes")
