"""KV-cache geometries: how many bytes a cell's rows have, and where llama.cpp's CPU buffer puts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcopy.errors import UsageError
from zcopy.native.rows import K, Tensor, V

MOST_LAYERS: Final = 800  # what one message of the protocol can describe
_CTX_STEP: Final = 512
_CTX_MARGIN: Final = 4096


@dataclass(frozen=True, slots=True)
class CacheType:
    """A ggml type a cache can have: its number, and how many bytes a block of elements takes (ggml.h)."""

    name: str
    number: int
    block: int
    block_bytes: int

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row. Raises UsageError where the row is not whole blocks."""
        blocks, rest = divmod(elements, self.block)
        if rest:
            raise UsageError(f"a row of {elements} elements is not whole {self.name} blocks of {self.block}")
        return blocks * self.block_bytes


TYPES: Final = {
    each.name: each
    for each in (
        CacheType("f32", 0, 1, 4),
        CacheType("f16", 1, 1, 2),
        CacheType("bf16", 30, 1, 2),
        CacheType("q8_0", 8, 32, 34),
        CacheType("q4_0", 2, 32, 18),
    )
}


@dataclass(frozen=True, slots=True)
class Geometry:
    """A model's cache: for each layer that has attention, K and V row lengths in elements; head sizes for rotation."""

    name: str
    rows: tuple[tuple[int, int], ...]
    head_k: int
    head_v: int

    @staticmethod
    def uniform(name: str, layers: int, kv_heads: int, head_k: int, head_v: int) -> Geometry:
        """Every layer alike. Raises UsageError for numbers no cache has."""
        for what, value, most in (
            ("layers", layers, MOST_LAYERS), ("kv-heads", kv_heads, 4096), ("head-dim", head_k, 65536),
            ("head-dim-v", head_v, 65536),
        ):  # fmt: skip
            if not 1 <= value <= most:
                raise UsageError(f"--{what} {value} is not between 1 and {most}")
        return Geometry(name, ((kv_heads * head_k, kv_heads * head_v),) * layers, head_k, head_v)


PRESETS: Final = {
    each.name: each
    for each in (
        Geometry.uniform("qwen3-4b", 36, 8, 128, 128),
        Geometry.uniform("qwen3-30b-a3b", 48, 4, 128, 128),
        # For tests and small guests: a few MiB of region.
        Geometry.uniform("tiny", 4, 2, 64, 64),
    )
}


@dataclass(frozen=True, slots=True)
class Cache:
    """A geometry with its types: what a region and a state file are made of."""

    geometry: Geometry
    type_k: CacheType
    type_v: CacheType
    v_trans: bool = False
    rotation: tuple[int, int] = (0, 0)  # n_rot_k, n_rot_v as stated

    def __post_init__(self) -> None:
        if self.v_trans and self.type_v.block > 1:
            raise UsageError(
                f"--v-trans with --type-v {self.type_v.name}: llama.cpp has no transposed quantised V"
            )

    @property
    def numbers(self) -> tuple[int, int]:
        """ggml's type numbers of K and V."""
        return self.type_k.number, self.type_v.number

    @property
    def cell_bytes(self) -> int:
        """Bytes of one cell over all layers."""
        return sum(self.type_k.row_bytes(k) + self.type_v.row_bytes(v) for k, v in self.geometry.rows)

    def unstated_rotation(self) -> str | None:
        """Why rows must not be written in place, or None.

        llama.cpp stores q8_0 and q4_0 caches whose head size is a multiple of 64 rotated by a Hadamard matrix.
        """
        for side, kind, head, stated in (
            ("K", self.type_k, self.geometry.head_k, self.rotation[0]),
            ("V", self.type_v, self.geometry.head_v, self.rotation[1]),
        ):
            if kind.block > 1 and head % 64 == 0 and not stated:
                return (
                    f"a {kind.name} {side} cache with heads of {head} is stored Hadamard-rotated: plain rows written"
                    f" in place would be silent garbage; state the rotation with --n-rot-{side.lower()}"
                )
        return None

    def tensors(self, n_cells: int) -> tuple[tuple[Tensor, ...], int]:
        """cache_k_l0, cache_v_l0, cache_k_l1 … back to back for `n_cells` cells, and the bytes of them all."""
        found: list[Tensor] = []
        at = 0
        for layer, (k, v) in enumerate(self.geometry.rows):
            for role, row in ((K, self.type_k.row_bytes(k)), (V, self.type_v.row_bytes(v))):
                found.append(self._tensor(at, n_cells, row, layer, role))
                at += n_cells * row
        return tuple(found), at

    def _tensor(self, at: int, n_cells: int, row: int, layer: int, role: int) -> Tensor:
        if role == V and self.v_trans:
            element = self.type_v.block_bytes
            return Tensor(at, element, element * n_cells, row, element, layer, role)
        return Tensor(at, row, 0, row, 0, layer, role)


def default_ctx(cells: int) -> int:
    """The multiple of 512 nearest to cells + 4096."""
    return (cells + _CTX_MARGIN + _CTX_STEP // 2) // _CTX_STEP * _CTX_STEP
