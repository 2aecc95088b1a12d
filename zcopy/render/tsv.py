r"""Tab-separated values: a header, raw values, one line a row; in cells, controls and ``\`` are escaped."""

from __future__ import annotations

from zcopy.render import Look
from zcopy.render.cells import escape_controls
from zcopy.render.records import raw_lines
from zcopy.table import Report, Table


def render(report: Report, look: Look) -> str:  # noqa: ARG001
    return "\n".join(_table(table) for table in report.records)


def _table(table: Table) -> str:
    return "".join("\t".join(map(_cell, line)) + "\n" for line in raw_lines(table))


def _cell(text: str) -> str:
    return escape_controls(text.replace("\\", "\\\\"))
