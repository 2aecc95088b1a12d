"""A handoff to a real decoder as a table: what it costs to the first new token, and whether that is the right one."""

from __future__ import annotations

from typing import Final

from zcopy.cli.handoff_tables import reasons
from zcopy.cli.run_tables import run_report
from zcopy.model import Outcome, Row, Run
from zcopy.table import Cell, Column, Kind, Report, Table

_COLUMNS: Final = (
    Column("route", "route", kind=Kind.ID, priority=0),
    Column("buffer", "buffer", kind=Kind.ID, priority=2),
    Column("cells", "cells", kind=Kind.COUNT, priority=0),
    Column("total", "to first token", kind=Kind.NS, priority=0),
    Column("least", "min", kind=Kind.NS, priority=6),
    Column("most", "max", kind=Kind.NS, priority=6),
    Column("save", "save", kind=Kind.NS, priority=3),
    Column("restore", "restore", kind=Kind.NS, priority=3),
    Column("write", "written in place", kind=Kind.NS, priority=4),
    Column("wake", "wake", kind=Kind.NS, priority=4),
    Column("first_token", "first token", kind=Kind.NS, priority=3),
    Column("bytes_copied", "bytes copied", kind=Kind.BYTES, priority=1),
    Column("gbps", "bandwidth", kind=Kind.RATE, priority=5),
    Column("cache_n", "re-used", kind=Kind.COUNT, priority=2),
    Column("prompt_n", "again", kind=Kind.COUNT, priority=1),
    Column("vs_file", "vs file", "times", kind=Kind.NUMBER, priority=3),
    Column("verified", "same text", kind=Kind.FLAG, priority=1),
    Column("outcome", "outcome", kind=Kind.OUTCOME, priority=1),
)
_PHASES: Final = ("total", "save", "restore", "write", "wake", "first_token")
_PRESET: Final = (
    "shared: stock llama.cpp cannot adopt, its cells were set beforehand; no adopting is in these numbers."
)


def engine_report(run: Run) -> Report:
    """The table; TSV and CSV get every case key, median and extra."""
    rows = tuple(_cells(row) for row in run.rows)
    preset = (_PRESET,) if any(row.extra.get("cells_preset") for row in run.rows) else ()
    table = Table(_title(run), _COLUMNS, rows, (*preset, *reasons(run)))
    return Report((table,), run.document, flat=run_report(run).flat)


def _title(run: Run) -> str:
    params = run.params
    types = dict.fromkeys((params["type_k"], params["type_v"]))
    how = "forged state" if params["forge"] else "prefill"
    fault = f", injected fault: {params['inject']}" if params["inject"] else ""
    return f"KV handoff to llama.cpp, {params['model']} {'/'.join(map(str, types))}, {how}{fault}"


def _cells(row: Row) -> dict[str, Cell]:
    ok = row.outcome is Outcome.OK
    totals = row.ns.get("total", ())
    cells: dict[str, Cell] = {key: str(row.case.get(key)) for key in ("route", "buffer")}
    counts = {"cells": row.case.get("cells"), **{key: row.extra.get(key) for key in ("cache_n", "prompt_n")}}
    cells |= {key: value if isinstance(value, int) else None for key, value in counts.items()}
    cells |= {phase: row.median_ns.get(phase) if ok else None for phase in _PHASES}
    ratio = row.extra.get("vs_file")
    return cells | {
        "least": min(totals) if ok else None,
        "most": max(totals) if ok else None,
        "bytes_copied": row.bytes_copied if ok else None,
        "gbps": row.gbps,
        "vs_file": ratio if isinstance(ratio, float) else None,
        "verified": row.verified,
        "outcome": str(row.outcome),
    }
