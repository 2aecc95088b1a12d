"""Tables of raw values and units: what commands build and only renderers turn into text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from zcopy.model import Json

Cell: TypeAlias = str | int | float | bool | None
"""A raw value; None is "there is none", which is not 0."""


class Kind(StrEnum):
    """What a column's raw values are, and so how they read in a table."""

    TEXT = "text"  # words; may wrap, is never cut
    ID = "id"  # a run id, a path, a device: one line, never cut
    COUNT = "count"  # an integer
    NUMBER = "number"  # a number, three significant digits in tables
    BYTES = "bytes"  # integer bytes, binary units in tables
    NS = "ns"  # integer nanoseconds, in tables in the column's unit (ms when it names none)
    SPAN = "span"  # integer nanoseconds, as a span of time for people (2.5 s, 1 h 05 min)
    RATE = "rate"  # GB/s, 1e9 bytes/s
    FLAG = "flag"  # a bool: yes or no
    OUTCOME = "outcome"  # ok, skipped, refused, failed: coloured on a terminal


WRAPPING: Final = frozenset((Kind.TEXT,))
NUMERIC: Final = frozenset((Kind.COUNT, Kind.NUMBER, Kind.BYTES, Kind.NS, Kind.SPAN, Kind.RATE))
_UNIT: Final = {Kind.NS: "ms", Kind.RATE: "GB/s"}
_SUFFIX: Final = {Kind.NS: "ns", Kind.SPAN: "ns", Kind.BYTES: "bytes", Kind.RATE: "gbps"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `key` names it in rows, TSV and CSV; `title` and `unit` head it in tables.

    `priority` 0 is never dropped on a narrow terminal; of the others the largest number goes first, and of
    equals the rightmost. `unit` is what tables show: for NS one of ns, µs, ms, s; it converts nothing else.
    """

    key: str
    title: str
    unit: str = ""
    kind: Kind = Kind.TEXT
    priority: int = 1

    @property
    def shown_unit(self) -> str:
        """The unit that heads the column in a table, or an empty string."""
        return self.unit or _UNIT.get(self.kind, "")

    @property
    def header(self) -> str:
        """The name in TSV and CSV, where values are raw: it ends in ns, bytes or gbps where they are that."""
        suffix = _SUFFIX.get(self.kind)
        named = suffix is None or suffix in self.key.split("_")
        return self.key if named else f"{self.key}_{suffix}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of raw values under columns. `notes` follow the table, one sentence each; TSV and CSV leave
    title, caption and notes out. A key that a row lacks is None; a key without a column is an error."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...]
    notes: tuple[str, ...] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        keys = [column.key for column in self.columns]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a column twice: {keys}")
        for row in self.rows:
            if stray := set(row) - set(keys):
                raise ValueError(f"no column for {sorted(stray)}")

    def cells(self, column: Column) -> list[Cell]:
        """The raw values of one column, top to bottom."""
        return [row.get(column.key) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Report:
    """What a command hands to the renderers.

    `document` makes the JSON document (`run.document`; only JSON calls it). TSV and CSV print `flat` where
    there is one, else the tables one after another with an empty line between them.
    """

    tables: tuple[Table, ...]
    document: Callable[[], Mapping[str, Json]]
    flat: Table | None = None

    @property
    def records(self) -> tuple[Table, ...]:
        """The tables of the record formats, TSV and CSV."""
        return self.tables if self.flat is None else (self.flat,)
