"""Raw cells for programs: what TSV and CSV have in common."""

from __future__ import annotations

from math import isfinite

from zcopy.table import Cell, Table


def raw_text(value: Cell) -> str:
    """The value as programs read it; empty where there is none."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def raw_lines(table: Table) -> list[list[str]]:
    """The header and every row, every column, nothing rounded."""
    header = [column.header for column in table.columns]
    body = [[raw_text(row.get(column.key)) for column in table.columns] for row in table.rows]
    return [header, *body]
