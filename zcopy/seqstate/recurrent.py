"""Reads a section of recurrent states."""

from __future__ import annotations

import struct

from zcopy.seqstate.reader import OddError, Reader, ShortError
from zcopy.seqstate.sections import (
    MOST_LAYERS,
    MOST_TYPE,
    TENSOR_HEAD,
    Part,
    RecurrentSection,
    Tensor,
    check_tensor,
)


def read_recurrent(reader: Reader, at: int, where: str = "") -> Part:
    """A section from `at` on.

    The file does not say how many of the model's layers have a state. Those of the first kind, `r`, are all alike;
    there are as many of the second, `s`, as there were of them.
    """
    reading = _Reading(reader, at, where)
    try:
        reading.head()
        reading.states()
    except (ShortError, OddError) as fault:
        end = reading.expected()
        return Part(reading.section(), end, fault, end is not None)
    return Part(reading.section(), reading.at)


class _Reading:
    """A section while it is read; `at` is the end of what is known to be in it."""

    def __init__(self, reader: Reader, at: int, where: str) -> None:
        self._reader, self._begin, self._where = reader, at, where
        self.at = at
        self._cells = 0
        self._last: int | None = None
        self._layers = 0
        self._states: list[Tensor] = []
        self._history: int | None = None
        self._half: int | None = None  # how many states there are of the first kind, once that is known

    def section(self) -> RecurrentSection:
        return RecurrentSection(
            self._begin, self._cells, self._last, self._layers, tuple(self._states), self._history
        )

    def head(self) -> None:
        """Raises ShortError and OddError, as do all below."""
        (self._cells,) = self._reader.unpack("I", self.at, f"the cell count{self._where}")
        if self._cells > 1:
            raise OddError(f"{self._cells} cells of recurrent states in one sequence")
        self.at += 4
        if self._cells:
            self._last, sequences = self._reader.unpack("iI", self.at, f"the cell{self._where}")
            if self._last is None or self._last < 0 or sequences:
                raise OddError(f"a recurrent cell at position {self._last} with {sequences} sequences")
            self.at += 8
        transposed, self._layers = self._reader.unpack("II", self.at, f"the layout{self._where}")
        if transposed or not 1 <= self._layers <= MOST_LAYERS:
            raise OddError(f"recurrent states of {self._layers} layers, transposed {transposed}")
        self.at += 8

    def states(self) -> None:
        first = self._state()
        self._read_history()
        while len(self._states) < self._layers and self._next() == first:
            self._state()
            self._read_history()
        second = self._state(least=0)  # of a short convolution there is no second state: rows of 0 bytes
        if second == first:
            raise OddError(f"more recurrent states than {self._layers} layers have")
        self._half = len(self._states) - 1
        while len(self._states) < 2 * self._half:
            if self._state(least=0) != second:
                raise OddError(f"recurrent states of three kinds{self._where}")

    def _next(self) -> Tensor | None:
        head = self._reader.peek(self.at, TENSOR_HEAD)
        return Tensor(*struct.unpack("<iQ", head)) if len(head) == TENSOR_HEAD else None

    def _state(self, least: int = 1) -> Tensor:
        what = f"recurrent state {len(self._states)}"
        tensor = Tensor(*self._reader.unpack("iQ", self.at, f"the header of {what}"))
        check_tensor(tensor, what, least)
        self._states.append(tensor)
        self._skip(TENSOR_HEAD, tensor.row_bytes, what)
        return tensor

    def _read_history(self) -> None:
        """A row size without a type, where no header of a state is: its bytes are more than any type's number."""
        following = self._next()
        if self._history is not None or following is None or following.type <= MOST_TYPE:
            return
        (row,) = self._reader.unpack("Q", self.at, "the convolution history")
        if row >> 32 or row % 4:
            return
        self._history = row
        self._skip(8, row, "the convolution history")

    def _skip(self, head: int, row: int, what: str) -> None:
        begin, self.at = self.at + head, self.at + head + self._cells * row
        self._reader.need(begin, self._cells * row, what)

    def expected(self) -> int | None:
        """Where it would end: known once the second kind has begun."""
        if self._half is None and len(set(self._states)) == 2:  # it is cut in the first of the second kind
            self._half = len(self._states) - 1
        if self._half is None:
            return None
        missing = 2 * self._half - len(self._states)
        return self.at + missing * (TENSOR_HEAD + self._cells * self._states[-1].row_bytes)
