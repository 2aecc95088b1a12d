"""A raw value as the words of a table cell, alike on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Final

from zcopy.table import Cell, Column, Kind
from zcopy.units import duration_text, number_text, size_text

_PER: Final = {"ns": 1, "µs": 10**3, "us": 10**3, "ms": 10**6, "s": 10**9}
_ASCII: Final = str.maketrans(
    {"—": "-", "–": "-", "…": "...", "→": "->", "←": "<-", "×": "x", "µ": "u", "≤": "<=", "≥": ">=", "·": "."}  # noqa: RUF001
)  # fmt: skip


def cell_text(value: Cell, column: Column, ascii: bool) -> str:
    """The words of one cell; a value there is none of (or that is not finite) is a dash."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "-" if ascii else "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return escape_controls(value.translate(_ASCII) if ascii else value)
    return _NUMBERS.get(column.kind, _plain)(value, column)


def head_text(column: Column, joint: str, ascii: bool) -> str:
    """A column's heading: its title and, after `joint`, its unit."""
    text = f"{column.title}{joint}{column.shown_unit}" if column.shown_unit else column.title
    return own_text(text, ascii)


def own_text(text: str, ascii: bool) -> str:
    """Our own words for this locale: dashes, arrows and units have an ASCII form."""
    return escape_controls(text.translate(_ASCII) if ascii else text, keep="\n")


def escape_controls(text: str, keep: str = "") -> str:
    r"""Control characters (not those of `keep`) as ``\x1b``: text from outside must not drive a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == " " or c in keep else ascii_escape(c) for c in text)


def ascii_escape(character: str) -> str:
    r"""``\n``, ``\x1b``, ``\u2028``: the character as Python would write it. Undecodable bytes stay."""
    return character if "\udc80" <= character <= "\udcff" else ascii(character)[1:-1]


def _plain(value: int | float, column: Column) -> str:  # noqa: ARG001
    return str(value) if isinstance(value, int) else number_text(value)


def _time(value: int | float, column: Column) -> str:
    return number_text(value / _PER[column.shown_unit])


_NUMBERS: Final[dict[Kind, Callable[[int | float, Column], str]]] = {
    Kind.BYTES: lambda value, column: size_text(int(value)),  # noqa: ARG005
    Kind.SPAN: lambda value, column: duration_text(int(value)),  # noqa: ARG005
    Kind.NS: _time,
}
