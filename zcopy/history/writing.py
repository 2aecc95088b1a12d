"""Putting runs into the tables. The caller holds the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from zcopy.history.encode import digest, json_text, pack, plain_text
from zcopy.model import Json, Row, Run

_COLUMNS: Final = (
    "id", "command", "started", "version", "status", "exit", "host_name", "host", "key", "argv", "params",
    "locks", "warnings", "label",
)  # fmt: skip
# What people wrote beside a run stays when the run itself is written again.
_KEPT: Final = {"label": "COALESCE(excluded.label, label)"}
_PUT_RUN: Final = (
    f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    "ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = {_KEPT.get(name, f'excluded.{name}')}" for name in _COLUMNS[1:])
)
_ADD_ROW: Final = (
    "INSERT INTO rows (run, ordinal, case_fact, row_key, outcome, reason, bytes, bytes_copied, verified, "
    "rate_phase, rate_of, extra) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def put_run(db: sqlite3.Connection, run: Run) -> None:
    """Store the whole run; what is stored of the same id is replaced, tags and notes stay."""
    db.execute(_PUT_RUN, _run_values(db, run))
    number = run_number(db, run.id)
    db.execute("DELETE FROM rows WHERE run = ?", (number,))
    for ordinal, row in enumerate(run.rows):
        put_row(db, number, ordinal, row)


def run_number(db: sqlite3.Connection, run_id: str) -> int:
    """The number that stands for the id inside the file. Raises LookupError."""
    found = db.execute("SELECT run FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        raise LookupError(run_id)
    return int(found[0])


def put_row(db: sqlite3.Connection, number: int, ordinal: int, row: Row) -> None:
    """Store the row of this place in the run, with every sample."""
    extra = dict(row.extra)
    row_key = extra.pop("key") if isinstance(extra.get("key"), Mapping) else None
    values = (
        number,
        ordinal,
        _fact(db, row.case),
        None if row_key is None else _fact(db, row_key),
        str(row.outcome),
        # As JSON, because a reason may hold a file name that is not UTF-8.
        None if row.reason is None else json_text(row.reason),
        row.bytes,
        row.bytes_copied,
        row.verified,
        row.rate_phase,
        row.rate_of,
        json_text(extra),
    )
    row_number = db.execute(_ADD_ROW, values).lastrowid
    db.executemany(
        "INSERT INTO samples (row, position, phase, count, ns) VALUES (?, ?, ?, ?, ?)",
        (
            (row_number, position, phase, len(samples), pack(samples))
            for position, (phase, samples) in enumerate(row.ns.items())
        ),
    )


def _run_values(db: sqlite3.Connection, run: Run) -> tuple[str | int | None, ...]:
    label = run.params.get("label")
    return (
        run.id,
        run.command,
        run.started,
        run.version,
        str(run.status),
        int(run.exit),
        plain_text(str(run.host.get("name", ""))),
        _fact(db, run.host),
        _fact(db, run.key),
        json_text(run.argv),
        json_text(run.params),
        json_text([lock.document() for lock in run.locks]),
        json_text([warning.document() for warning in run.warnings]),
        plain_text(label) if isinstance(label, str) else None,
    )


def _fact(db: sqlite3.Connection, value: Json) -> int:
    """The number of a document, which is stored when it is a new one."""
    key = digest(value)
    found = db.execute("SELECT fact FROM facts WHERE digest = ?", (key,)).fetchone()
    if found is None:
        found = (
            db.execute("INSERT INTO facts (digest, json) VALUES (?, ?)", (key, json_text(value))).lastrowid,
        )
    return int(found[0])
