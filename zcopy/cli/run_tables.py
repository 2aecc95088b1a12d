"""Saved runs as tables: the list of them, and any one of them whatever its command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from zcopy.model import Json, Row, Run
from zcopy.stats import percentile
from zcopy.table import Cell, Column, Kind, Report, Table

if TYPE_CHECKING:
    from zcopy.history.reading import RunSummary

LIST_SCHEMA: Final = "zcopy.list/1"
TAIL_SAMPLES: Final = 100  # from so many samples on a p99 says something

_LIST_COLUMNS: Final = (
    Column("id", "run", kind=Kind.ID, priority=0),
    Column("command", "command", priority=0),
    Column("status", "status", kind=Kind.OUTCOME, priority=0),
    Column("exit", "exit", kind=Kind.COUNT, priority=3),
    Column("started", "started (UTC)", kind=Kind.ID, priority=4),
    Column("rows", "rows", kind=Kind.COUNT, priority=2),
    Column("label", "label", priority=1),
    Column("tags", "tags", priority=1),
    Column("host", "host", priority=2),
)
_RESULT_COLUMNS: Final = (
    Column("outcome", "outcome", kind=Kind.OUTCOME, priority=0),
    Column("bytes", "bytes", kind=Kind.BYTES, priority=2),
    Column("bytes_copied", "copied", kind=Kind.BYTES, priority=2),
    Column("gbps", "rate", kind=Kind.RATE, priority=1),
    Column("verified", "verified", kind=Kind.FLAG, priority=2),
)


def list_report(runs: Sequence[RunSummary]) -> Report:
    """The runs as they come."""
    rows = tuple({**run.document(), "tags": ",".join(run.tags) or None} for run in runs)
    notes = () if runs else ("no runs",)
    cells = tuple({key: _cell(value) for key, value in row.items()} for row in rows)
    document: Mapping[str, Json] = {"schema": LIST_SCHEMA, "runs": [run.document() for run in runs]}
    return Report((Table("runs", _LIST_COLUMNS, cells, notes),), lambda: document)


def run_report(run: Run) -> Report:
    """A run: what it was, what it warned about, and its rows with the median and the spread of every phase."""
    rows = _rows(run)
    return Report((_facts(run), rows), run.document, flat=rows)


def _facts(run: Run) -> Table:
    facts = {
        "command": run.command,
        "status": f"{run.status} (exit {run.exit})",
        "started": run.started,
        "version": run.version,
        "argv": " ".join(run.argv),
        "locks": ", ".join(f"{lock.device} {lock.state}" for lock in run.locks),
        "host": _text(run.host.get("name")),
    }
    columns = (Column("fact", "fact", priority=0), Column("value", "value", priority=0))
    rows = tuple({"fact": fact, "value": value} for fact, value in facts.items() if value)
    return Table(f"run {run.id}", columns, rows, tuple(f"warning: {each.text}" for each in run.warnings))


def _rows(run: Run) -> Table:
    cases = _keys(row.case for row in run.rows)
    phases = _keys(row.ns for row in run.rows)
    extras = _keys(row.extra for row in run.rows)
    tail = any(len(samples) >= TAIL_SAMPLES for row in run.rows for samples in row.ns.values())
    columns = (
        *(Column(f"case.{key}", key, kind=Kind.ID, priority=1) for key in cases),
        *_RESULT_COLUMNS,
        *(Column(f"median.{phase}", phase, kind=Kind.NS, priority=1) for phase in phases),
        Column("reason", "reason", priority=1),
        *(column for phase in phases for column in _spread_columns(phase, tail)),
        *(Column(key, key, kind=Kind.ID, priority=4) for key in extras if key != "key"),
    )
    return Table("rows", columns, tuple(_row(row) for row in run.rows))


def _spread_columns(phase: str, tail: bool) -> Iterator[Column]:
    yield Column(f"n.{phase}", f"{phase} samples", kind=Kind.COUNT, priority=6)
    for name in ("min", "max", *(("p99",) if tail else ())):
        yield Column(f"{name}.{phase}", f"{phase} {name}", kind=Kind.NS, priority=5)


def _spread(row: Row) -> Iterator[tuple[str, Cell]]:
    """Beside each median: of how many, from where to where, and from 100 samples on the tail."""
    for phase, samples in row.ns.items():
        if samples:
            yield f"n.{phase}", len(samples)
            yield f"min.{phase}", min(samples)
            yield f"max.{phase}", max(samples)
        if len(samples) >= TAIL_SAMPLES:
            yield f"p99.{phase}", percentile(samples, 0.99)


def _row(row: Row) -> dict[str, Cell]:
    return {
        **{f"case.{key}": _cell(value) for key, value in row.case.items()},
        "outcome": str(row.outcome),
        "bytes": row.bytes,
        "bytes_copied": row.bytes_copied,
        "gbps": row.gbps,
        "verified": row.verified,
        **{f"median.{phase}": value for phase, value in row.median_ns.items()},
        "reason": row.reason,
        **dict(_spread(row)),
        **{key: _cell(value) for key, value in row.extra.items() if key != "key"},
    }


def _keys(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """Every key, in the order they are first met."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _cell(value: Json) -> Cell:
    return value if value is None or isinstance(value, str | int | float | bool) else _text(value)


def _text(value: Json) -> str:
    from zcopy.history.encode import json_text

    return value if isinstance(value, str) else "" if value is None else json_text(value)
