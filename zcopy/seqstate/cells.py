"""The cells of a stream: positions and sequences, looked at in chunks."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from zcopy.seqstate.reader import MOST, OddError, Reader

_SORTED_MOST: Final = 1 << 22  # cells whose positions are sorted to find gaps and duplicates: 16 MiB of them


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
    """Positions in the order of the file: as runs while they go up by one, sorted only where they do not."""

    least: int = 1 << 31
    most: int = -(1 << 31)
    next: int | None = None
    in_order: bool = True
    kept: array[int] = field(default_factory=lambda: array("i"))
    sequences: set[int] = field(default_factory=set)


def read_cells(reader: Reader, at: int, count: int, words: int, what: str) -> Cells:
    """`count` cells of `words` 32-bit words from `at` on. Raises ShortError, and OddError for what no cell says.

    A cell is its position, 1 (the number of its sequences), with M-RoPE x, y and a token, and the sequence.
    """
    reader.need(at, count * words * 4, what)
    if not count:
        return Cells(0)
    seen = _Seen()
    for chunk in _chunks(reader, at, count, words, what):
        _look(seen, chunk[0::words], chunk[1::words], chunk[words - 1 :: words], count, what)
    gaps, duplicates = (0, 0) if seen.in_order else _irregular(seen, count)
    return Cells(count, seen.least, seen.most, gaps, duplicates, tuple(sorted(seen.sequences)))


def _chunks(reader: Reader, at: int, count: int, words: int, what: str) -> Iterator[array[int]]:
    step = MOST // (words * 4)
    for begin in range(0, count, step):
        chunk = array("i")
        chunk.frombytes(reader.bytes(at + begin * words * 4, min(step, count - begin) * words * 4, what))
        yield chunk


def _look(
    seen: _Seen, pos: array[int], ones: array[int], sequences: array[int], count: int, what: str
) -> None:
    if ones.count(1) != len(ones):
        raise OddError(f"{what}: a cell has another number of sequences than 1")
    low, high = min(pos), max(pos)
    if low < 0:
        raise OddError(f"{what}: a cell has position {low}")
    seen.least, seen.most = min(seen.least, low), max(seen.most, high)
    if len(seen.sequences) < _MOST_SEQUENCES:
        seen.sequences.update(set(sequences))
    expected = pos[0] if seen.next is None else seen.next
    seen.in_order = seen.in_order and pos == array("i", range(expected, expected + len(pos)))
    seen.next = pos[-1] + 1
    if count <= _SORTED_MOST:
        seen.kept.extend(pos)


_MOST_SEQUENCES: Final = 1024


def _irregular(seen: _Seen, count: int) -> tuple[int | None, int | None]:
    if count > _SORTED_MOST:
        return None, None
    ordered = sorted(seen.kept)
    duplicates = sum(1 for one, other in pairwise(ordered) if one == other)
    return seen.most - seen.least + 1 - (count - duplicates), duplicates
