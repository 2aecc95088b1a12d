"""llama.cpp's sequence-state file, version 4: written from packed rows, read into place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from zcopy.native._zc import ffi, lib
from zcopy.native.calls import check
from zcopy.native.region import Region
from zcopy.native.rows import Layout


class State:
    """What a file says beside its rows: one sequence of text tokens, the first at position 0."""

    def __init__(
        self,
        types: tuple[int, int],
        rotation: tuple[int, int] = (0, 0),
        sequence: int = 0,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """`types` are ggml's numbers of K and V. `tokens` are the ids to save; None: their own indices."""
        self._count = None if tokens is None else len(tokens)
        self._tokens = ffi.NULL if tokens is None else ffi.new("uint32_t[]", list(tokens))
        self.raw = ffi.new("zc_state *", (*types, *rotation, sequence, 0, self._tokens))

    def save(self, fd: int, source: Region | None, packed: Layout) -> int:
        """Writes the whole file at the descriptor's offset from a packed source; its bytes.

        Without a source the rows are holes, which read as zeros. Raises NativeError, and ValueError where the token
        ids are not as many as the rows.
        """
        if self._count not in (None, packed.tokens):
            raise ValueError(f"{self._count} token ids for {packed.tokens} tokens")
        pointer = ffi.NULL if source is None else source.pointer
        return check(lib.zc_state_save(fd, self.raw, pointer, packed.raw))

    def load(self, path: str, to: Region, target: Layout, pos: Any) -> tuple[int, int]:
        """Reads a file straight into place and its positions into `pos`; its bytes, and the ns from open to close.

        On a dma-buf the ns contain DMA_BUF_IOCTL_SYNC's start and end. Raises NativeError: ENODATA too short, E2BIG
        trailing bytes, EILSEQ another format, ESTALE another geometry, or what a system call said.
        """
        ns = ffi.new("uint64_t *")
        name = os.fsencode(path)
        bytes_ = check(lib.zc_state_load(name, self.raw, to.mapping, to.dmabuf, target.raw, pos, ns))
        return bytes_, int(ns[0])
