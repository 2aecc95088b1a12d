"""A handoff run as tables: what a person reads, and every median for the record formats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zcopy.cli.run_tables import TAIL_SAMPLES, run_report
from zcopy.model import Outcome, Row, Run
from zcopy.stats import percentile
from zcopy.table import Cell, Column, Kind, Report, Table
from zcopy.units import duration_text, size_text

if TYPE_CHECKING:
    from zcopy.probes.base import Plan

_COLUMNS: Final = (
    Column("route", "route", kind=Kind.ID, priority=0),
    Column("buffer", "buffer", kind=Kind.ID, priority=2),
    Column("region", "region", kind=Kind.ID, priority=0),
    Column("cells", "cells", "adopted", kind=Kind.COUNT, priority=0),
    Column("total", "total", kind=Kind.NS, priority=0),
    Column("least", "min", kind=Kind.NS, priority=6),
    Column("most", "max", kind=Kind.NS, priority=6),
    Column("bytes_copied", "bytes copied", kind=Kind.BYTES, priority=1),
    Column("gbps", "bandwidth", kind=Kind.RATE, priority=3),
    Column("adopt", "adopt", kind=Kind.NS, priority=4),
    Column("first_write", "first write", kind=Kind.NS, priority=5),
    Column("faults", "faults", kind=Kind.COUNT, priority=5),
    Column("vs_file", "vs file", "times", kind=Kind.NUMBER, priority=3),
    Column("verified", "verified", kind=Kind.FLAG, priority=4),
    Column("outcome", "outcome", kind=Kind.OUTCOME, priority=1),
)
_TAIL: Final = (
    Column("p99", "p99", kind=Kind.NS, priority=2),
    Column("worst", "max", kind=Kind.NS, priority=2),
)


def handoff_report(run: Run) -> Report:
    """The table with what it recommends; TSV and CSV get every case key, median and extra."""
    # Late: the advice lives beside the probe, which needs the native module.
    from zcopy.probes.handoff.advice import recommend

    tail = any(len(row.ns.get("total", ())) >= TAIL_SAMPLES for row in run.rows)
    columns = _columns(run, tail)
    keys = {column.key for column in columns}
    cells = tuple({key: value for key, value in _cells(row).items() if key in keys} for row in run.rows)
    table = Table(_title(run), columns, cells, (*recommend(run.rows), *reasons(run)))
    return Report((table,), run.document, flat=run_report(run).flat)


def _title(run: Run) -> str:
    params = run.params
    cache = (
        f"{params['type_k']}/{params['type_v']}" if params["type_k"] != params["type_v"] else params["type_k"]
    )
    extra = "".join(
        f", {word}"
        for word, said in (
            ("V transposed", params["v_trans"]),
            ("scattered cells", params["scatter"]),
            ("AddressSanitizer provider", params["provider"] == "asan"),
            (f"injected fault: {params['inject']}", params["inject"]),
        )
        if said
    )
    return f"KV handoff, {params['model']} {cache}{extra}"


def _columns(run: Run, tail: bool) -> tuple[Column, ...]:
    found = [column for column in _COLUMNS if not (tail and column.key == "most")]
    if tail:
        at = [column.key for column in found].index("total") + 1
        found[at:at] = _TAIL
    for key, title in (("populate", "populate"), ("pass", "pass"), ("state_dir", "state in")):
        if _differs(run, key):
            found.insert(3, Column(key, title, kind=Kind.ID, priority=2))
    # What tells rows apart is dropped after everything that does not.
    return tuple(
        replace(column, priority=1) if column.key == "buffer" and _differs(run, "buffer") else column
        for column in found
    )


def _differs(run: Run, key: str) -> bool:
    """Whether the rows of the run have several values of a case key."""
    return len({row.case.get(key) for row in run.rows} - {None}) > 1


def _cells(row: Row) -> dict[str, Cell]:
    from zcopy.probes.handoff.advice import first_write_ns

    totals = row.ns.get("total", ())
    ok = row.outcome is Outcome.OK
    adopted = row.case.get("cells") if ok else None
    ratio = row.extra.get("vs_file")
    faults = row.extra.get("faults")
    return {
        **{key: str(value) for key, value in row.case.items()},
        "cells": adopted if isinstance(adopted, int) else None,
        "total": row.median_ns.get("total") if ok else None,
        "least": min(totals) if ok else None,
        "most": max(totals) if ok else None,
        "p99": percentile(totals, 0.99) if ok else None,
        "worst": max(totals) if ok else None,
        "bytes_copied": row.bytes_copied if ok else None,
        "gbps": row.gbps,
        "adopt": row.median_ns.get("adopt") if ok else None,
        "first_write": first_write_ns(row) if ok else None,
        "faults": faults if isinstance(faults, int) else None,
        "vs_file": ratio if isinstance(ratio, float) else None,
        "verified": row.verified,
        "outcome": str(row.outcome),
    }


def reasons(run: Run) -> list[str]:
    """Why rows are not ok, each reason once, with the cases it stands for."""
    by_reason: dict[str, list[str]] = {}
    for row in run.rows:
        if row.reason:
            case = row.case
            what = f"{case['route']} {case['buffer']} {case['region']} {case['cells']}"
            by_reason.setdefault(f"{row.outcome}: {row.reason}", []).append(what)
    return [f"{reason} [{', '.join(cases)}]" for reason, cases in by_reason.items()]


def plan_table(plan: Plan) -> Table:
    """What a run would measure, and what it would take."""
    keys = ("route", "buffer", "region", "populate", "pass", "cells", "ctx")
    columns = tuple(
        Column(key, key, kind=Kind.COUNT if key in ("cells", "ctx") else Kind.ID, priority=1) for key in keys
    )
    rows = tuple({key: _plain(case.get(key)) for key in keys} for case in plan.cases)
    note = (
        f"at most {size_text(plan.memory)} of memory and {size_text(plan.disk)} on disk at a time,"
        f" about {duration_text(plan.duration_ns)}"
    )
    return Table("plan: nothing was measured", columns, rows, (note,))


def _plain(value: object) -> Cell:
    return value if isinstance(value, str | int | float) else None
