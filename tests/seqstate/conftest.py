"""State files made byte by byte, as the format's description has them, independently of what reads or writes them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from zcopy.seqstate.state import StateFile, inspect

MAGIC = 0x67677371


def words(*values: int) -> bytes:
    return b"".join(struct.pack("<I", value & 0xFFFFFFFF) for value in values)


@dataclass
class Cache:
    """A section of K and V rows; `pos` are the cells' positions, `rows` the bytes of each layer's K and V (0: none)."""

    pos: Sequence[int] = range(4)
    rows: Sequence[tuple[int, int]] = ((8, 8), (8, 8))
    types: tuple[int, int] = (1, 1)
    v_trans: bool = False
    rotation: tuple[int, int] | None = (0, 0)
    mrope: bool = False
    streams: int = 1
    filled: int = 0  # the stream that has the cells
    sequence: int = 0

    def data(self) -> bytes:
        out = words(self.streams)
        for number in range(self.streams):
            cells = len(self.pos) if number == self.filled else 0
            out += words(cells)
            if cells:
                out += self._cells() + words(int(self.v_trans), len(self.rows), *(self.rotation or ()))
                out += b"".join(self._rows(k, self.types[0], False) for k, _ in self.rows)
                out += b"".join(self._rows(v, self.types[1], self.v_trans) for _, v in self.rows if v)
        return out

    def _cells(self) -> bytes:
        more = words(7, 8, 9) if self.mrope else b""
        return b"".join(words(pos, 1) + more + words(self.sequence) for pos in self.pos)

    def _rows(self, size: int, kind: int, transposed: bool) -> bytes:
        head = struct.pack("<iII", kind, 2, size // 2) if transposed else struct.pack("<iQ", kind, size)
        return head + b"\xa5" * (size * len(self.pos))


@dataclass
class Recurrent:
    """A section of recurrent states: `layers` of the model, of which `with_state` have an r and an s.

    `history`: bytes of what the first of them keeps behind its r.
    """

    layers: int = 4
    with_state: int = 2
    r: int = 12
    s: int = 20
    cells: int = 1
    last: int = 3
    history: int = 0

    def data(self) -> bytes:
        out = words(self.cells) + (words(self.last, 0) if self.cells else b"") + words(0, self.layers)
        out += self._state(self.r)
        if self.history:
            out += struct.pack("<Q", self.history) + b"\x77" * (self.history * self.cells)
        return out + self._state(self.r) * (self.with_state - 1) + self._state(self.s) * self.with_state

    def _state(self, size: int) -> bytes:
        return struct.pack("<iQ", 0, size) + b"\x5a" * (size * self.cells)


@dataclass
class Checkpoints:
    """The block that newer servers append; each checkpoint is (tokens, first, last, bytes of the model's state)."""

    each: Sequence[tuple[int, int, int, int]] = ((3, 0, 2, 40),)

    def data(self) -> bytes:
        out = b"SCKP" + words(1, len(self.each))
        for tokens, first, last, size in self.each:
            out += struct.pack("<qiiQ", tokens, first, last, size) + b"\x11" * size + bytes(16)
        return out


@dataclass
class Whole:
    """A file: head, then parts in this order."""

    parts: Sequence[Any] = field(default_factory=lambda: (Cache(),))
    version: int = 4
    tokens: int = 4
    server: bool = True
    media: int = 0

    def data(self) -> bytes:
        ids = words(*range(self.tokens))
        payload = words(-1, 1, self.tokens) + ids + words(self.media) if self.server else ids
        return (
            words(MAGIC, self.version, len(payload) // 4)
            + payload
            + b"".join(part.data() for part in self.parts)
        )


class Maker:
    Cache, Recurrent, Checkpoints, Whole = Cache, Recurrent, Checkpoints, Whole
    words = staticmethod(words)


@pytest.fixture(scope="session")
def make() -> type[Maker]:
    return Maker


@pytest.fixture(scope="session")
def shapes() -> dict[str, Whole]:
    """Whole files of every kind, each of some hundred bytes."""
    return {
        "plain": Whole(),
        "transposed": Whole((Cache(v_trans=True),)),
        "mrope": Whole((Cache(mrope=True),)),
        # A row's size could be a count of cells: V's head is then like that of a section.
        "many": Whole((Cache(pos=range(20), rows=((8, 8),) * 2),)),
        "without V": Whole((Cache(rows=((8, 0),) * 2),)),
        "streams": Whole((Cache(streams=3, filled=1),)),
        "window": Whole((Cache(), Cache(pos=(2, 3), rows=((4, 4),) * 3))),
        "hybrid": Whole((Cache(), Recurrent())),
        "indexer": Whole((Cache(), Recurrent(history=512), Cache(rows=((6, 0),)))),
        "checkpoints": Whole((Cache(), Checkpoints())),
        "recurrent": Whole((Recurrent(),)),
    }


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], StateFile]:
    """What is found in a file of these bytes."""
    path = tmp_path / "state.bin"

    def run(data: bytes) -> StateFile:
        path.write_bytes(data)
        return inspect(path)

    return run
