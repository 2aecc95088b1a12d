"""Reads a section of K and V rows."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from zcopy.seqstate.cells import MROPE, PLAIN, CellReader, Cells
from zcopy.seqstate.reader import OddError, Reader, ShortError
from zcopy.seqstate.sections import (
    CACHE_TYPES,
    MOST_LAYERS,
    TENSOR_HEAD,
    KvSection,
    Part,
    Tensor,
    check_tensor,
)

_MOST_STREAMS: Final = 256
_MOST_TENSORS: Final = 2 * MOST_LAYERS  # of all streams: only one stream of a sequence has cells
_MOST_ROTATION: Final = 1 << 16


class Form(NamedTuple):
    """What a section does not say of itself: whether its cells have M-RoPE's extent, and whether there is V.

    Models with latent attention (MLA) keep no V, nor do the indexers of sparse attention.
    """

    mrope: bool
    has_v: bool


def read_kv(reader: Reader, cells: CellReader, at: int, version: int, form: Form, where: str = "") -> Part:
    """A section from `at` on; `where` says in errors which one it is, as " of the second section"."""
    reading = _Reading(reader, cells, at, version, form, where)
    try:
        end = reading.read()
        return Part(reading.section(), end)
    except (ShortError, OddError) as fault:
        expected, exact = reading.expected()
        return Part(reading.section(), expected, fault, exact)


class _Reading:
    """A section while it is read: `_at` is the end of what is known to be in it."""

    def __init__(
        self, reader: Reader, cells: CellReader, at: int, version: int, form: Form, where: str
    ) -> None:
        self._reader, self._cells = reader, cells
        self._version, self._form, self._where = version, form, where
        self._begin = self._at = at
        self._announced = 0
        self._streams: list[Cells] = []
        self._v_trans: bool | None = None
        self._layers = 0
        self._rotation: tuple[int, int] | None = None
        self._k: list[Tensor] = []
        self._v: list[Tensor] = []

    def section(self) -> KvSection:
        return KvSection(
            self._begin,
            self._form.mrope,
            tuple(self._streams),
            self._v_trans,
            self._layers,
            self._rotation,
            tuple(self._k),
            tuple(self._v),
            self._form.has_v,
        )

    def read(self) -> int:
        """Where it ends. Raises ShortError and OddError."""
        (count,) = self._reader.unpack("I", self._at, f"the number of streams{self._where}")
        if not 1 <= count <= _MOST_STREAMS:
            raise OddError(f"{count} streams{self._where}")
        self._at += 4
        self._announced = count
        tensors = 0
        for number in range(count):
            self._stream(f"stream {number}{self._where}")
            tensors += len(self._k) + len(self._v)
            if tensors > _MOST_TENSORS:
                raise OddError(f"more than {_MOST_TENSORS} tensors{self._where}")
        return self._at

    def _stream(self, what: str) -> None:
        (cells,) = self._reader.unpack("I", self._at, f"the cell count of {what}")
        words = MROPE if self._form.mrope else PLAIN
        begin, bytes_ = self._at + 4, cells * words * 4
        self._streams.append(self._cells.read(begin, cells, words, f"the cells of {what}"))
        self._at = begin + bytes_
        if cells:
            self._layout(what)
            self._tensors(cells)

    def _layout(self, what: str) -> None:
        form = "IIII" if self._version >= 4 else "II"
        v_trans, layers, *rotation = self._reader.unpack(form, self._at, f"the layout of {what}")
        if v_trans > 1 or layers > MOST_LAYERS or any(each > _MOST_ROTATION for each in rotation):
            raise OddError(f"{what}: V transposed {v_trans}, {layers} layers, rotation {rotation}")
        self._v_trans, self._layers = bool(v_trans), layers
        self._rotation = (rotation[0], rotation[1]) if rotation else None
        self._at += 4 * len(form)
        self._k, self._v = [], []

    def _tensors(self, cells: int) -> None:
        for layer in range(self._layers):
            self._tensor(self._k, cells, False, f"layer {layer} K{self._where}")
        for layer in range(self._layers if self._form.has_v else 0):
            self._tensor(self._v, cells, bool(self._v_trans), f"layer {layer} V{self._where}")

    def _tensor(self, into: list[Tensor], cells: int, transposed: bool, what: str) -> None:
        head = self._reader.peek(self._at, TENSOR_HEAD)
        if len(head) < TENSOR_HEAD:
            self._cut_head(head, what)
        if transposed:
            kind, element, channels = struct.unpack("<iII", head)
            tensor = Tensor(kind, element * channels)
        else:
            tensor = Tensor(*struct.unpack("<iQ", head))
        check_tensor(tensor, what)
        into.append(tensor)
        bytes_ = cells * tensor.row_bytes
        self._at += TENSOR_HEAD + bytes_
        self._reader.need(self._at - bytes_, bytes_, f"the rows of {what}")

    def _cut_head(self, head: bytes, what: str) -> None:
        """Raises ShortError if these first bytes can be those of a tensor's type, else OddError."""
        if head and (head[0] not in CACHE_TYPES or any(head[1:4])):
            raise OddError(f"{what}: it begins with 0x{head.hex()}")
        raise ShortError(f"the header of {what}", TENSOR_HEAD - len(head))

    def expected(self) -> tuple[int | None, bool]:
        """Where it would end were its missing layers like the last one there, and whether none is missing."""
        if not self._k:
            return None, False
        cells = self._streams[-1].count
        k, v = self._k[-1], (self._v or self._k)[-1]
        missing_k = self._layers - len(self._k)
        missing_v = self._layers - len(self._v) if self._form.has_v else 0
        end = self._at + (self._announced - len(self._streams)) * 4  # no other stream has cells
        end += missing_k * (TENSOR_HEAD + cells * k.row_bytes) + missing_v * (
            TENSOR_HEAD + cells * v.row_bytes
        )
        return end, not missing_k and not missing_v
