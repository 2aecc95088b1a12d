"""A run that was read from a log as a table: a line for each phase of each case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zcopy.cli.run_tables import TAIL_SAMPLES, run_report
from zcopy.model import Json, Row, Run
from zcopy.stats import percentile
from zcopy.table import Cell, Column, Kind, Report, Table

_COLUMNS: Final = (
    Column("engine", "engine", kind=Kind.ID, priority=3),
    Column("what", "what", kind=Kind.ID, priority=0),
    Column("cells", "cells", kind=Kind.COUNT, priority=0),
    Column("phase", "phase", kind=Kind.ID, priority=0),
    Column("samples", "samples", kind=Kind.COUNT, priority=1),
    Column("median", "median", kind=Kind.NS, priority=0),
    Column("least", "min", kind=Kind.NS, priority=4),
    Column("p99", "p99", kind=Kind.NS, priority=3),
    Column("most", "max", kind=Kind.NS, priority=4),
    Column("bytes_copied", "bytes copied", kind=Kind.BYTES, priority=2),
)
_COUNTED: Final = ("cells", "tokens")  # what the column of cells shows, the first that there is


def ingest_report(run: Run) -> Report:
    """The table; TSV and CSV get every case key, median and extra of each row."""
    rows = tuple(line for row in run.rows for line in _lines(row, run.params.get("case")))
    log = run.params.get("log")
    title = f"{run.params['file']}, {_count(log, 'understood')} of {_count(log, 'lines')} lines"
    tail = any(row.get("p99") is not None for row in rows)
    columns = tuple(column for column in _COLUMNS if tail or column.key != "p99")
    shown = tuple({key: row[key] for key in row if tail or key != "p99"} for row in rows)
    return Report((Table(title, columns, shown),), run.document, flat=run_report(run).flat)


def _count(log: Json, name: str) -> Json:
    return log.get(name, 0) if isinstance(log, dict) else 0


def _lines(row: Row, stated: Json) -> Iterator[dict[str, Cell]]:
    moved = row.extra.get("phase_bytes")
    cells: dict[str, Cell] = {
        "engine": str(row.extra.get("engine")), "what": _what(row, stated), "cells": _size(row),
    }  # fmt: skip
    if not row.ns:
        yield cells
    for phase, samples in row.ns.items():
        yield cells | {
            "phase": phase,
            "samples": len(samples),
            "median": row.median_ns[phase],
            "least": min(samples),
            "p99": percentile(samples, 0.99) if len(samples) >= TAIL_SAMPLES else None,
            "most": max(samples),
            "bytes_copied": _whole(moved.get(phase)) if isinstance(moved, dict) else None,
        }


def _what(row: Row, stated: Json) -> str:
    """The case in words, without what was stated for all of them."""
    left = {*_COUNTED, "engine", *(stated if isinstance(stated, dict) else ())}
    words = (
        str(value) if key in ("route", "stage", "what") else f"{key}={value}"
        for key, value in row.case.items()
        if key not in left
    )
    return " ".join(words)


def _size(row: Row) -> int | None:
    return next((_whole(row.case[key]) for key in _COUNTED if key in row.case), None)


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) else None
