"""Which sections follow one another: a file does not say it, so every order that llama.cpp writes is followed.

The orders are those of its caches (src/llama-kv-cache*.cpp, src/llama-memory-*.cpp).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zcopy.seqstate.cells import CellReader
from zcopy.seqstate.checkpoints import Checkpoint, begins, read_checkpoints
from zcopy.seqstate.kv import Form, read_kv
from zcopy.seqstate.reader import Fault, OddError, Reader, ShortError
from zcopy.seqstate.recurrent import read_recurrent
from zcopy.seqstate.sections import KvSection, Part, Section

_ATTENTION, _WINDOW, _INDEXER, RECURRENT = "attention", "window", "indexer", "recurrent"
_ORDERS: Final = (
    (_ATTENTION,),
    (_ATTENTION, _INDEXER),  # sparse attention
    (_ATTENTION, _WINDOW),  # a sliding window in some layers
    (_ATTENTION, RECURRENT),  # a hybrid
    (_ATTENTION, _WINDOW, RECURRENT),
    (_ATTENTION, RECURRENT, _INDEXER),
    (_ATTENTION, _INDEXER, _WINDOW),
    (RECURRENT,),
)
# The simplest that fits is the one: plain cells before M-RoPE's, a cache with V before one without.
_FORMS: Final = (Form(False, True), Form(False, False), Form(True, True), Form(True, False))
_FORMS_OF: Final = {
    _ATTENTION: _FORMS,
    _WINDOW: _FORMS,
    _INDEXER: tuple(form for form in _FORMS if not form.has_v),
    RECURRENT: (None,),
}
_NAMES: Final = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Reading:
    """One order followed as far as it goes.

    `end` is where the whole file ends; where it is cut, as in `Part`. A `fault` is in the last section, or (then
    `sections_whole`) in the checkpoints behind it. `begun` says how much speaks for the last: 0
    nothing, 1 a number that may be one, 2 one that hardly comes by chance.
    """

    roles: tuple[str, ...]
    parts: tuple[Part, ...]
    end: int | None
    fault: Fault | None = None
    exact: bool = True
    begun: int = 2
    sections_whole: bool = True
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(part.section for part in self.parts)

    @property
    def cut(self) -> bool:
        return self.begun > 0 and isinstance(self.fault, ShortError)

    @property
    def odd(self) -> bool:
        return self.begun > 0 and isinstance(self.fault, OddError)


class Follower:
    """Follows all orders from one place in a file. A section is read once, whatever orders it is in."""

    def __init__(self, reader: Reader, version: int) -> None:
        self._reader, self._cells, self._version = reader, CellReader(reader), version
        self._read: dict[tuple[int, int, Form | None], Part] = {}

    def readings(self, at: int) -> Iterator[Reading]:
        """Every order, those with fewer and simpler sections first."""
        yield from self._follow((), (), at)

    def _follow(self, roles: tuple[str, ...], parts: tuple[Part, ...], at: int) -> Iterator[Reading]:
        count = len(roles)
        if roles in _ORDERS:
            yield self._finished(roles, parts, at)
        following = dict.fromkeys(
            order[count] for order in _ORDERS if len(order) > count and order[:count] == roles
        )
        for role in following:
            for form in _FORMS_OF[role]:
                part = self._part(count, at, form)
                if role == _INDEXER and not _mirrors(parts, part.section):
                    continue
                yield from self._behind((*roles, role), (*parts, part))

    def _behind(self, roles: tuple[str, ...], parts: tuple[Part, ...]) -> Iterator[Reading]:
        last = parts[-1]
        if last.fault is None:
            assert last.end is not None
            yield from self._follow(roles, parts, last.end)
        else:
            begun = self._begun(roles[-1], parts)
            yield Reading(roles, parts, last.end, last.fault, last.exact, begun, sections_whole=False)

    def _part(self, number: int, at: int, form: Form | None) -> Part:
        key = number, at, form
        if key not in self._read:
            where = f" of the {_NAMES[number]} section" if number else ""
            self._read[key] = (
                read_recurrent(self._reader, at, where)
                if form is None
                else read_kv(self._reader, self._cells, at, self._version, form, where)
            )
        return self._read[key]

    def _finished(self, roles: tuple[str, ...], parts: tuple[Part, ...], at: int) -> Reading:
        if not begins(self._reader, at):
            return Reading(roles, parts, at)
        found: list[Checkpoint] = []
        try:
            end: int | None = read_checkpoints(self._reader, at, found)
            fault: Fault | None = None
        except OddError:
            end, fault = at, None  # what looks like checkpoints and is none is more than there should be
        except ShortError as short:
            end, fault = None, short
        return Reading(roles, parts, end, fault, exact=False, checkpoints=tuple(found))

    def _begun(self, role: str, parts: tuple[Part, ...]) -> int:
        """How much of what is there of the last section, which is not sound, is as the beginning of one."""
        first = parts[0].section
        if len(parts) == 1 or not isinstance(first, KvSection):
            return 2
        head = self._reader.peek(parts[-1].section.at, 8)
        if role == RECURRENT:
            expected = struct.pack("<II", 1, first.last or 0) if first.cells else struct.pack("<I", 0)
            return (2 if len(head) == 8 else 1) if expected.startswith(head[: len(expected)]) else 0
        streams = struct.pack("<I", len(first.streams))
        cells = int.from_bytes(head[4:], "little") if len(head) == 8 else 0
        return int(streams.startswith(head[:4]) and cells <= first.cells)


def _mirrors(before: tuple[Part, ...], indexer: Section) -> bool:
    """An indexer has the cells that the attention has; a cut one may have begun them.

    An empty second section is as well a window's, and taken for that.
    """
    cells = before[0].section.cells
    return indexer.cells in (0, cells) and (cells > 0 or len(before) > 1)
