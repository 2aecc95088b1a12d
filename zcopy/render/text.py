"""Tables for people, drawn by rich: whole at any width, in ASCII where the locale is."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from zcopy.render import Look
from zcopy.render.cells import cell_text, head_text, own_text
from zcopy.table import NUMERIC, WRAPPING, Column, Kind, Report, Table

_GAP: Final = 2
_NARROW: Final = 16  # words in a column that may wrap get at least so much room, if they need it
_STYLES: Final = {"ok": "green", "failed": "bold red", "refused": "yellow", "skipped": "dim"}
_ASCII_BOX: Final = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def render(report: Report, look: Look) -> str:
    return "\n".join(_lines(table, look) for table in report.tables)


def fitting(table: Table, look: Look) -> tuple[Column, ...]:
    """The columns that fit into the look's width: the least important are left out, the rightmost first.

    Columns of priority 0 stay even where they do not fit: then lines are longer than the terminal is wide.
    """
    kept = list(table.columns)
    while look.width is not None and _least(table, kept, look.ascii) > look.width:
        last = max(range(len(kept)), key=lambda index: (kept[index].priority, index))
        if kept[last].priority == 0:
            break
        del kept[last]
    return tuple(kept)


def _least(table: Table, columns: Sequence[Column], ascii: bool) -> int:
    return sum(_least_width(table, column, ascii) + _GAP for column in columns) - _GAP


def _least_width(table: Table, column: Column, ascii: bool) -> int:
    """The cells that a column needs at least: all of its longest value, or a few words where it may wrap."""
    head = max(cell_len(line) for line in head_text(column, "\n", ascii).split("\n"))
    longest = max((cell_len(cell_text(value, column, ascii)) for value in table.cells(column)), default=0)
    return max(head, min(longest, _NARROW) if column.kind in WRAPPING else longest)


def _lines(table: Table, look: Look) -> str:
    columns = fitting(table, look)
    natural = sum(_natural_width(table, column, look.ascii) + _GAP for column in columns) - _GAP
    least = _least(table, columns, look.ascii)
    width = max(least, natural if look.width is None else look.width)
    console = _console(look, width)
    foot = _foot(table, columns, look)
    for part in (*_head(table, look), _drawn(table, columns, look), *([Text()] if foot else []), *foot):
        console.print(part, soft_wrap=look.width is None and isinstance(part, Text))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return text if look.colour else "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _natural_width(table: Table, column: Column, ascii: bool) -> int:
    values = (cell_len(cell_text(value, column, ascii)) for value in table.cells(column))
    return max(_least_width(table, column, ascii), *values, 0)


def _console(look: Look, width: int) -> Console:
    # Everything is said here, so that rich asks neither the environment nor a terminal.
    return Console(
        file=io.StringIO(), width=width, height=25, force_terminal=look.colour, no_color=not look.colour,
        color_system="standard" if look.colour else None, markup=False, emoji=False, highlight=False,
        legacy_windows=False, _environ={},
    )  # fmt: skip


def _head(table: Table, look: Look) -> list[Text]:
    return [Text(own_text(table.title, look.ascii), style="bold")] if table.title else []


def _foot(table: Table, columns: Sequence[Column], look: Look) -> list[Text]:
    texts = [Text(own_text(text, look.ascii)) for text in (table.caption, *table.notes) if text]
    if dropped := [column.title for column in table.columns if column not in columns]:
        said = (
            f"Not shown at {look.width} columns: {', '.join(dropped)}; a wider terminal or --format tsv does."
        )
        texts.append(Text(own_text(said, look.ascii), style="dim"))
    return texts


def _drawn(table: Table, columns: Sequence[Column], look: Look) -> RenderableType:
    drawn = RichTable(
        box=_ASCII_BOX if look.ascii else box.SIMPLE_HEAD,
        show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold",
    )  # fmt: skip
    for column in columns:
        drawn.add_column(
            Text(head_text(column, "\n", look.ascii)),
            justify="right" if column.kind in NUMERIC else "left",
            no_wrap=column.kind not in WRAPPING,
            overflow="fold",
            min_width=_least_width(table, column, look.ascii),
            vertical="top",
        )
    for row in table.rows:
        drawn.add_row(*(_cell(row.get(column.key), column, look.ascii) for column in columns))
    return drawn


def _cell(value: object, column: Column, ascii: bool) -> Text:
    text = cell_text(value, column, ascii)  # type: ignore[arg-type]
    return Text(text, style=_STYLES.get(text, "") if column.kind is Kind.OUTCOME else "")
