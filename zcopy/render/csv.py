"""Comma-separated values as RFC 4180 quotes them, raw values, lines ended by a newline alone."""

from __future__ import annotations

import csv
import io

from zcopy.render import Look
from zcopy.render.records import raw_lines
from zcopy.table import Report, Table


def render(report: Report, look: Look) -> str:  # noqa: ARG001
    return "\n".join(_table(table) for table in report.records)


def _table(table: Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(raw_lines(table))
    return text.getvalue()
