"""`CellTable`: the decoder's bookkeeping of which cell holds which position of which sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zcopy.native._zc import ffi, lib
from zcopy.native.calls import check


class Adoption:
    """`count` cells to adopt: a list, or a range from `first`; token i gets position ``pos[i]``.

    Built once and used for every repetition: what is timed allocates nothing.
    """

    def __init__(
        self, pos: Any, sequences: Sequence[int], *, cells: Sequence[int] | None = None, first: int = 0
    ) -> None:
        self.count = len(pos)
        self._keep = (
            ffi.new("int32_t[]", list(pos)) if not isinstance(pos, ffi.CData) else pos,
            ffi.new("uint32_t[]", list(sequences)),
            ffi.new("uint32_t[]", list(cells)) if cells is not None else ffi.NULL,
        )
        self.raw = ffi.new("zc_adoption *")
        self.raw.pos, self.raw.sequences, self.raw.cells = self._keep
        self.raw.first, self.raw.count, self.raw.n_sequences = first, self.count, len(sequences)


class CellTable:
    """`size` cells in flat native arrays. Memory: about 44 bytes per cell and 8 per adopted pair."""

    def __init__(self, size: int) -> None:
        out = ffi.new("zc_cells **")
        check(lib.zc_cells_new(size, out))
        self.raw = ffi.gc(out[0], lib.zc_cells_free)
        self.size = size

    def adopt(self, what: Adoption) -> int:
        """All or nothing; the ns it took.

        Raises NativeError: EBUSY (a cell is in use: `clash`), ERANGE, EINVAL, ENOMEM.
        """
        took = ffi.new("uint64_t *")
        check(lib.zc_timed_adopt(self.raw, what.raw, took))
        return int(took[0])

    def reserve(self, sequence: int, count: int) -> None:
        """Brings in the memory that adopting `count` cells for `sequence` will write. Raises NativeError."""
        check(lib.zc_cells_reserve(self.raw, sequence, count))

    def remove(self, sequence: int) -> int:
        """Takes a sequence out; the number of cells that became free."""
        return check(lib.zc_cells_remove(self.raw, sequence))

    def audit(self) -> None:
        """Compares everything that can be derived with what is kept. Raises NativeError EUCLEAN."""
        check(lib.zc_cells_audit(self.raw))

    @property
    def used(self) -> int:
        return int(lib.zc_cells_used(self.raw))

    @property
    def head(self) -> int:
        return int(lib.zc_cells_head(self.raw))

    @property
    def clash(self) -> int:
        """The occupied cell that the last refused adoption met."""
        return int(lib.zc_cells_clash(self.raw))

    def pos(self, cell: int) -> int:
        """The cell's position, -1 where it is free."""
        return int(lib.zc_cells_pos(self.raw, cell))

    def shift(self, cell: int) -> int:
        return int(lib.zc_cells_shift(self.raw, cell))

    def has(self, cell: int, sequence: int) -> bool:
        return bool(lib.zc_cells_has(self.raw, cell, sequence))

    def pairs(self, sequence: int) -> list[tuple[int, int]]:
        """The sequence's (position, cell) pairs in ascending order."""
        count = lib.zc_cells_length(self.raw, sequence)
        keys = (int(lib.zc_cells_pair(self.raw, sequence, i)) for i in range(count))
        return [(key >> 32, key & 0xFFFFFFFF) for key in keys]
