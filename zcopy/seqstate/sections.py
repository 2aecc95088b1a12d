"""The sections of a state: a cache of K and V rows, and the states of recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from zcopy.seqstate.cells import Cells, read_cells
from zcopy.seqstate.reader import OddError, Reader, ShortError

CHECKPOINTS: Final = 0x504B4353  # "SCKP"
MOST_LAYERS: Final = 4096
_MOST_STREAMS: Final = 256
_MOST_TYPE: Final = 255  # ggml has some forty types
_MOST_ROW: Final = 1 << 32
PLAIN, MROPE = 3, 6  # 32-bit words of a cell


class Tensor(NamedTuple):
    """ggml's type number and the bytes of one cell's row (of a recurrent layer: of one state)."""

    type: int
    row_bytes: int


@dataclass
class KvSection:
    """K and V of some layers, over one or more streams of cells. Layers that the file has not are not in the lists."""

    kind: str = "attention"
    where: str = ""  # which section it is, in the words of an error
    at: int = 0
    end: int = 0
    announced: int = 0  # cells of the stream that is read
    streams: tuple[Cells, ...] = ()
    mrope: bool = False
    v_trans: bool | None = None
    layers: int = 0
    rotation: tuple[int, int] | None = None
    k: tuple[Tensor, ...] = ()
    v: tuple[Tensor, ...] = ()

    @property
    def cells(self) -> int:
        return sum(each.count for each in self.streams)


@dataclass
class RecurrentSection:
    """The states of recurrent layers: `r` (convolution) and `s` (state space), one of each for a layer and a cell."""

    kind: str = "recurrent"
    at: int = 0
    end: int = 0
    cells: int = 0
    last: int | None = None  # position of the last cell
    layers: int = 0  # of the model, those without a state included
    states: tuple[Tensor, ...] = ()


Section = KvSection | RecurrentSection


def read_kv(reader: Reader, at: int, version: int, words: int, into: KvSection) -> KvSection:
    """A cache section from `at` on, noted in `into` as far as it goes. Raises ShortError and OddError."""
    into.at, into.mrope = at, words == MROPE
    (count,) = reader.unpack("I", at, f"the number of streams{into.where}")
    if not 1 <= count <= _MOST_STREAMS:
        raise OddError(f"{count} streams")
    at += 4
    for number in range(count):
        at = _stream(reader, at, version, words, number, into)
    into.end = at
    return into


def _stream(reader: Reader, at: int, version: int, words: int, number: int, into: KvSection) -> int:
    what = f"stream {number}{into.where}"
    (cells,) = reader.unpack("I", at, f"the cell count of {what}")
    at += 4
    into.announced = cells
    into.streams += (read_cells(reader, at, cells, words, f"the cells of {what}"),)
    at += cells * words * 4
    if not cells:
        return at
    form = "IIII" if version >= 4 else "II"
    v_trans, layers, *rotation = reader.unpack(form, at, f"the layout of {what}")
    if v_trans > 1 or not 0 <= layers <= MOST_LAYERS or any(each > 1 << 16 for each in rotation):
        raise OddError(f"{what}: V transposed {v_trans}, {layers} layers, rotation {rotation}")
    into.v_trans, into.layers = bool(v_trans), layers
    into.rotation = (rotation[0], rotation[1]) if rotation else None
    at += 4 * len(form)
    into.k, into.v, into.end = (), (), at
    for layer in range(layers):
        at = _rows(reader, at, cells, False, f"layer {layer} K{into.where}", into)
    for layer in range(layers):
        at = _rows(reader, at, cells, into.v_trans, f"layer {layer} V{into.where}", into)
    return at


def _rows(reader: Reader, at: int, cells: int, transposed: bool, what: str, into: KvSection) -> int:
    if transposed:
        kind, element, channels = reader.unpack("iII", at, f"the header of {what}")
        row = element * channels
    else:
        kind, row = reader.unpack("iQ", at, f"the header of {what}")
    check_tensor(kind, row, what)
    tensor = Tensor(kind, row)
    if len(into.k) < into.layers:
        into.k += (tensor,)
    else:
        into.v += (tensor,)
    into.end = at + 12 + cells * row
    reader.need(at + 12, cells * row, f"the rows of {what}")
    return into.end


def read_recurrent(reader: Reader, at: int, into: RecurrentSection) -> RecurrentSection:
    """A section of recurrent states from `at` on, noted in `into` as far as it goes. Raises ShortError and OddError.

    The file does not say how many of the model's layers have a state. They go on until the file ends or checkpoints
    begin; then there must be as many of the one kind as of the other, each kind of one size.
    """
    into.at = at
    (into.cells,) = reader.unpack("I", at, "the cell count of the recurrent states")
    if into.cells > 1:
        raise OddError(f"{into.cells} cells of recurrent states in one sequence")
    at += 4
    if into.cells:
        into.last, sequences = reader.unpack("iI", at, "the cell of the recurrent states")
        if into.last is None or into.last < 0 or sequences:
            raise OddError(f"a recurrent cell at position {into.last} with {sequences} sequences")
        at += 8
    transposed, into.layers = reader.unpack("II", at, "the layout of the recurrent states")
    if transposed or not 1 <= into.layers <= MOST_LAYERS:
        raise OddError(f"recurrent states of {into.layers} layers, transposed {transposed}")
    at += 8
    into.end = at
    while at < reader.size and reader.size - at >= 4 and reader.unpack("I", at, "") != (CHECKPOINTS,):
        complete = _paired(into.states)
        try:
            at = into.end = _state(reader, at, into)
        except (ShortError, OddError):
            if not complete:
                raise
            into.states, into.end = complete, at  # what follows is not one of them
            break
    if not _paired(into.states):
        raise ShortError(f"recurrent state {len(into.states)}", 1)
    return into


def _paired(states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The states where they are whole: as many of the one kind as of the other, each kind of one size; else none."""
    half, rest = divmod(len(states), 2)
    first, second = set(states[:half]), set(states[half:])
    return () if rest or len(first) != 1 or len(second) != 1 or first == second else states


def _state(reader: Reader, at: int, into: RecurrentSection) -> int:
    what = f"recurrent state {len(into.states)}"
    kind, row = reader.unpack("iQ", at, f"the header of {what}")
    check_tensor(kind, row, what)
    into.states += (Tensor(kind, row),)
    into.end = at + 12 + into.cells * row
    reader.need(at + 12, into.cells * row, what)
    return int(at + 12 + into.cells * row)


def check_tensor(kind: int, row: int, what: str) -> None:
    """Raises OddError for a type or a row that no tensor has."""
    if not 0 <= kind <= _MOST_TYPE or not 0 < row < _MOST_ROW:
        raise OddError(f"{what}: type {kind} with rows of {row} bytes")


def not_begun(section: Section) -> int | None:
    """Bytes of what a cut section has not begun, were its missing layers like those before; None: nothing to go by."""
    if isinstance(section, RecurrentSection) or not section.k:
        return None
    missing_k, missing_v = section.layers - len(section.k), section.layers - len(section.v)
    v = section.v[-1] if section.v else section.k[-1]
    cells = section.streams[-1].count
    return missing_k * (12 + cells * section.k[-1].row_bytes) + missing_v * (12 + cells * v.row_bytes)
