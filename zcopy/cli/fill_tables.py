"""A fill run as tables: what a person reads, and everything for the record formats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zcopy.cli.run_tables import run_report
from zcopy.model import Outcome, Row, Run
from zcopy.stats import percentile
from zcopy.table import Cell, Column, Kind, Report, Table
from zcopy.units import duration_text, size_text

if TYPE_CHECKING:
    from zcopy.probes.base import Plan

_COLUMNS: Final = (
    Column("size", "size", kind=Kind.BYTES, priority=0),
    Column("range", "range", kind=Kind.BYTES, priority=1),
    Column("buffer", "buffer", kind=Kind.ID, priority=0),
    Column("populate", "populate", kind=Kind.ID, priority=1),
    Column("caching", "caching", kind=Kind.ID, priority=3),
    Column("method", "method", kind=Kind.ID, priority=0),
    Column("threads", "threads", kind=Kind.COUNT, priority=4),
    Column("sync", "sync", kind=Kind.ID, priority=1),
    Column("fill", "fill", kind=Kind.NS, priority=1),
    Column("p10", "p10", kind=Kind.NS, priority=5),
    Column("p90", "p90", kind=Kind.NS, priority=5),
    Column("gbps", "written", kind=Kind.RATE, priority=0),
    Column("gbps_with_sync", "with sync", kind=Kind.RATE, priority=2),
    Column("sync_ns", "sync cost", kind=Kind.NS, priority=2),
    Column("fence", "fence", kind=Kind.NS, priority=6),
    Column("sync_share", "sync share", kind=Kind.NUMBER, priority=3),
    Column("vs_memcpy", "vs memcpy", "times", kind=Kind.NUMBER, priority=1),
    Column("first_touch", "first touch", kind=Kind.NS, priority=5),
    Column("faults", "faults", kind=Kind.COUNT, priority=6),
    Column("verified", "verified", kind=Kind.FLAG, priority=4),
    Column("outcome", "outcome", kind=Kind.OUTCOME, priority=1),
)
_SHORT_NS: Final = 10_000  # in ms that has two noughts before its first digit


def fill_report(run: Run) -> Report:
    """The table with the saving of each sync policy; TSV and CSV get every case key, median and extra."""
    rows = tuple(_cells(row) for row in run.rows)
    columns = _columns(rows)
    keys = {column.key for column in columns}
    rows = tuple({key: value for key, value in row.items() if key in keys} for row in rows)
    table = Table(
        "fill from cached memory",
        columns,
        rows,
        (*_first_touches(run.rows), *_savings(run.rows), *_reasons(run)),
    )
    return Report((table,), run.document, flat=run_report(run).flat)


def _columns(rows: tuple[dict[str, Cell], ...]) -> tuple[Column, ...]:
    """Without those of syncs and ranges where this run has none; times in a unit that fits its shortest fill."""
    hidden = {key for key in ("range", "populate") if all(row[key] is None for row in rows)}
    if all(row["sync_ns"] is None for row in rows):
        hidden |= {"sync_ns", "fence", "sync_share", "gbps_with_sync"}
    fills = [ns for row in rows if isinstance(ns := row["fill"], int)]
    unit = "µs" if fills and min(fills) < _SHORT_NS else "ms"
    return tuple(
        replace(column, unit=unit) if column.kind is Kind.NS else column
        for column in _COLUMNS
        if column.key not in hidden
    )


def _cells(row: Row) -> dict[str, Cell]:
    ok = row.outcome is Outcome.OK
    fills = row.ns.get("fill", ())
    mover = row.extra.get("mover")
    method, sync, threads = (row.case.get(key) for key in ("method", "sync", "threads"))
    cells: dict[str, Cell] = {
        "size": _number(row.case.get("size", row.bytes)),
        "range": _number(row.case.get("range")),
        "populate": str(row.case["populate"]) if "populate" in row.case else None,
        "buffer": str(row.case["buffer"]),
        "method": f"auto: {mover}"
        if method == "auto" and mover
        else str(mover or method)
        if method
        else None,
        "threads": threads if isinstance(threads, int) else None,
        "sync": str(sync) if sync else None,
        "gbps": row.gbps,
        "verified": row.verified,
        "outcome": str(row.outcome),
    }
    for key in ("caching", "gbps_with_sync", "sync_share", "vs_memcpy", "faults"):
        value = row.extra.get(key)
        cells[key] = value if ok and isinstance(value, str | int | float) else None
    for key, phase in (
        ("fill", "fill"),
        ("first_touch", "first_touch"),
        ("fence", "fence"),
        ("sync_ns", "sync"),
    ):
        cells[key] = row.median_ns.get(phase) if ok else None
    cells["p10"] = percentile(fills, 0.1) if ok else None
    cells["p90"] = percentile(fills, 0.9) if ok else None
    return cells


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _first_touches(rows: tuple[Row, ...]) -> list[str]:
    """For each size, which of the buffers that were measured takes its first bytes soonest, and which last."""
    notes = []
    for size in dict.fromkeys(row.case["size"] for row in rows):
        met = {_place(row): row for row in rows if row.outcome is Outcome.OK and row.case["size"] == size}
        if len(met) > 1:
            ranked = sorted(met, key=lambda place: met[place].median_ns["first_touch"])
            first, last = ranked[0], ranked[-1]
            notes.append(f"{_size(size)}, first touch: {_met(first, met[first])}; {_met(last, met[last])}.")
    return notes


def _place(row: Row) -> str:
    return f"{row.case['buffer']}{', populated' if 'populate' in row.case else ''}"


def _met(place: str, row: Row) -> str:
    made = row.median_ns["map"] + row.median_ns.get("populate", 0)
    touch, faults = duration_text(row.median_ns["first_touch"]), row.extra.get("faults")
    return f"{place} takes {touch} with {faults} page fault{'' if faults == 1 else 's'}, made in {duration_text(made)}"


def _size(value: object) -> str:
    return size_text(value) if isinstance(value, int) else str(value)


def _savings(rows: tuple[Row, ...]) -> list[str]:
    """For each kind and method that has both: what a re-fill that only cleans costs against the double sync."""
    notes = []
    by_sync = {(*_which(row), row.case["sync"]): row for row in rows if row.outcome is Outcome.OK}
    for clean in by_sync.values():
        full = by_sync.get((*_which(clean), "full")) if clean.case["sync"] == "clean" else None
        if full is not None:
            saved = full.median_ns["total"] - clean.median_ns["total"]
            notes.append(
                f"{clean.case['buffer']}, {clean.case['method']}, {size_text(clean.bytes)}: a re-fill that only cleans"
                f" takes {duration_text(clean.median_ns['total'])}, with the double sync"
                f" {duration_text(full.median_ns['total'])}"
                + (f": {duration_text(saved)} less." if saved > 0 else ": no saving.")
            )
    return notes


def _which(row: Row) -> tuple[object, ...]:
    return (
        row.case["size"],
        *(row.case.get(key) for key in ("buffer", "populate", "method", "range", "threads")),
    )


def _reasons(run: Run) -> list[str]:
    """Why rows are not ok, each reason once, with the kinds it stands for."""
    found: dict[str, list[str]] = {}
    for row in run.rows:
        if row.reason:
            what = " ".join(str(row.case[key]) for key in ("buffer", "method") if key in row.case)
            found.setdefault(f"{row.outcome}: {row.reason}", []).append(f"{what} {size_text(row.bytes)}")
    return [f"{reason} [{', '.join(dict.fromkeys(what))}]" for reason, what in found.items()]


def plan_table(plan: Plan) -> Table:
    """What a run would measure, and what it would take."""
    keys = ("buffer", "populate", "method", "sync", "threads", "size", "range")
    kinds = {"size": Kind.BYTES, "range": Kind.BYTES, "threads": Kind.COUNT}
    columns = tuple(Column(key, key, kind=kinds.get(key, Kind.ID), priority=1) for key in keys)
    rows = tuple({key: _plain(case.get(key)) for key in keys} for case in plan.cases)
    note = f"at most {size_text(plan.memory)} of memory at a time, about {duration_text(plan.duration_ns)}"
    return Table("plan: nothing was measured", columns, rows, (note,))


def _plain(value: object) -> Cell:
    return value if isinstance(value, str | int) else None
