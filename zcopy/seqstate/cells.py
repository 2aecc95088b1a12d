"""The cells of a stream: positions and sequences, looked at in chunks."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from zcopy.seqstate.reader import MOST, Fault, OddError, Reader, ShortError

_SORTED_MOST: Final = 1 << 22  # cells whose positions are sorted to find gaps and duplicates: 16 MiB of them
_MOST_SEQUENCES: Final = 1024
_MOST_POSITION: Final = 1 << 31
_FEW: Final = 8
PLAIN, MROPE = 3, 6  # 32-bit words of a cell


@dataclass(frozen=True, slots=True)
class Cells:
    """`count` cells. Gaps are positions between the first and the last that no cell has; None: too many to tell."""

    count: int
    first: int | None = None
    last: int | None = None
    gaps: int | None = 0
    duplicates: int | None = 0
    sequences: tuple[int, ...] = ()


@dataclass
class _Seen:
    """Positions in the order of the file: as one run while they go up by one, kept to be sorted otherwise."""

    keep: bool
    least: int = 1 << 31
    most: int = -(1 << 31)
    next: int | None = None
    in_order: bool = True
    kept: array[int] = field(default_factory=lambda: array("i"))
    sequences: set[int] = field(default_factory=set)


class CellReader:
    """Reads cells of a file, each place once: several readings of a section have its cells in common."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._read: dict[tuple[int, int, int], Cells | Fault] = {}

    def read(self, at: int, count: int, words: int, what: str) -> Cells:
        """`count` cells of `words` 32-bit words from `at` on. Raises ShortError, and OddError for what no cell says.

        A cell is its position, 1 (the number of its sequences), with M-RoPE x, y and a token, and the sequence.
        """
        key = at, count, words
        if key not in self._read:
            try:
                self._read[key] = _read(self._reader, at, count, words, what)
            except (ShortError, OddError) as fault:
                self._read[key] = fault
        found = self._read[key]
        if isinstance(found, Cells):
            return found
        raise found


def _read(reader: Reader, at: int, count: int, words: int, what: str) -> Cells:
    """Those that are there are looked at before the file is called short: a count that is nonsense has none such."""
    if not count:
        return Cells(0)
    if words > PLAIN and _are_plain(reader, at, count):
        raise OddError(f"{what}: they are plain ones")
    seen = _Seen(keep=count <= _SORTED_MOST)
    for chunk in _chunks(reader, at, count, words, what):
        _look(seen, chunk[0::words], chunk[1::words], chunk[words - 1 :: words], what)
    reader.need(at, count * words * 4, what)
    gaps, duplicates = (0, 0) if seen.in_order else _irregular(seen, count)
    return Cells(count, seen.least, seen.most, gaps, duplicates, tuple(sorted(seen.sequences)))


def _chunks(reader: Reader, at: int, count: int, words: int, what: str) -> Iterator[array[int]]:
    """As many whole cells as there are; few at first, since rows may be taken for cells by mistake."""
    size = words * 4
    there = min(count, max(0, reader.size - at) // size)
    begin, step = 0, _FEW
    while begin < there:
        step = min(step, there - begin)
        chunk = array("i")
        chunk.frombytes(reader.bytes(at + begin * size, step * size, what))
        yield chunk
        begin, step = begin + step, MOST // size


def _are_plain(reader: Reader, at: int, count: int) -> bool:
    """Whether the first are sound as plain cells of one sequence, which those of M-RoPE with its extent are not."""
    data = reader.peek(at, _FEW * PLAIN * 4)
    if count < _FEW or len(data) < _FEW * PLAIN * 4:
        return False
    numbers = array("i", data)
    return _all(numbers[1::PLAIN], 1) and _all(numbers[2::PLAIN], numbers[2])


def _look(seen: _Seen, pos: array[int], ones: array[int], sequences: array[int], what: str) -> None:
    """Compares bytes where it can: a number in Python costs ten times as much."""
    if not _all(ones, 1):
        raise OddError(f"{what}: a cell has another number of sequences than 1")
    expected = pos[0] if seen.next is None else seen.next
    run = 0 <= expected < _MOST_POSITION - len(pos) and _same(
        pos, array("i", range(expected, expected + len(pos)))
    )
    low, high = (pos[0], pos[-1]) if run else (min(pos), max(pos))
    if low < 0:
        raise OddError(f"{what}: a cell has position {low}")
    seen.least, seen.most = min(seen.least, low), max(seen.most, high)
    seen.in_order = seen.in_order and run
    seen.next = pos[-1] + 1
    if len(seen.sequences) < _MOST_SEQUENCES:
        seen.sequences |= {sequences[0]} if _all(sequences, sequences[0]) else set(sequences)
    if seen.keep:
        seen.kept.extend(pos)


def _same(one: array[int], other: array[int]) -> bool:
    return one.tobytes() == other.tobytes()


def _all(numbers: array[int], value: int) -> bool:
    return _same(numbers, array("i", (value,)) * len(numbers))


def _irregular(seen: _Seen, count: int) -> tuple[int | None, int | None]:
    if not seen.keep:
        return None, None
    import numpy as np

    ordered = np.sort(np.frombuffer(seen.kept, np.int32))
    different = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    return seen.most - seen.least + 1 - different, count - different
