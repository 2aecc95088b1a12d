"""Getting runs out of the tables, and finding the run that a word names."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zcopy.errors import UsageError
from zcopy.history.encode import json_value, plain_text, unpack
from zcopy.model import Json, LockState, Outcome, Row, Run, Status, Warning_

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RELATIVE: Final = {"@last": 0, "@prev": 1}
_NAMED: Final = 5
"""How many candidates an error names."""

_LIST: Final = """
    SELECT id, command, status, exit, started, host_name, label,
        (SELECT COUNT(*) FROM rows WHERE rows.run = runs.run),
        (SELECT GROUP_CONCAT(tag) FROM (SELECT tag FROM tags WHERE tags.run = runs.run ORDER BY tag))
    FROM runs"""
_RUN: Final = """
    SELECT run, id, command, started, version, status, exit, argv, params, locks, warnings,
        (SELECT json FROM facts WHERE fact = host), (SELECT json FROM facts WHERE fact = key)
    FROM runs WHERE id = ?"""
_ROWS: Final = """
    SELECT rows.row, cases.json, keys.json, outcome, reason, bytes, bytes_copied, verified, rate_phase,
        rate_of, extra
    FROM rows JOIN facts AS cases ON cases.fact = case_fact LEFT JOIN facts AS keys ON keys.fact = row_key
    WHERE run = ? ORDER BY ordinal"""
_SAMPLES: Final = "SELECT phase, count, ns FROM samples WHERE row = ? ORDER BY position"


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run without its rows; `status` is as stored, a newer zcopy may know more of them."""

    id: str
    command: str
    status: str
    exit: int
    started: str
    host: str
    label: str | None
    rows: int
    tags: tuple[str, ...]

    def document(self) -> dict[str, Json]:
        """The run's entry in a `zcopy.list/1` document."""
        return {
            "id": self.id,
            "command": self.command,
            "status": self.status,
            "exit": self.exit,
            "started": self.started,
            "host": self.host,
            "rows": self.rows,
            "label": self.label,
            "tags": list(self.tags),
        }


def summaries(
    db: sqlite3.Connection, limit: int | None = None, command: str | None = None, status: str | None = None
) -> list[RunSummary]:
    """The runs, newest first: all of them, or the `limit` newest, of this command and this status."""
    wanted = [
        (name, plain_text(value)) for name, value in (("command", command), ("status", status)) if value
    ]
    where = f" WHERE {' AND '.join(f'{name} = ?' for name, _ in wanted)}" if wanted else ""
    values = (*(value for _, value in wanted), -1 if limit is None else limit)
    found = db.execute(f"{_LIST}{where} ORDER BY id DESC LIMIT ?", values)
    return [_summary((*own, tuple(tags.split(",") if tags else ()))) for *own, tags in found]


def _summary(values: tuple[Any, ...]) -> RunSummary:
    return RunSummary(*values)


def load_run(db: sqlite3.Connection, run_id: str) -> Run:
    """The whole run of a full id. Raises LookupError; ValueError where what is stored makes no run."""
    found = db.execute(_RUN, (run_id,)).fetchone()
    if found is None:
        raise LookupError(run_id)
    number, run_id, command, started, version, status, exit_code, *documents = found
    argv, params, locks, warnings, host, key = map(json_value, documents)
    return Run(
        id=run_id,
        command=command,
        started=started,
        version=version,
        argv=tuple(argv),
        params=params,
        host=host,
        key=key,
        locks=tuple(LockState(**lock) for lock in locks),
        warnings=tuple(Warning_(**warning) for warning in warnings),
        rows=tuple(_rows(db, number)),
        status=Status(status),
        exit=exit_code,
        saved=True,
    )


def _rows(db: sqlite3.Connection, number: int) -> Iterator[Row]:
    for row, case, key, outcome, reason, size, copied, verified, phase, rate_of, extra in db.execute(
        _ROWS, (number,)
    ):
        own: Mapping[str, Any] = {} if key is None else {"key": json_value(key)}
        yield Row(
            case=json_value(case),
            outcome=Outcome(outcome),
            reason=None if reason is None else json_value(reason),
            bytes=size,
            bytes_copied=copied,
            verified=None if verified is None else bool(verified),
            ns={name: unpack(count, packed) for name, count, packed in db.execute(_SAMPLES, (row,))},
            rate_phase=phase,
            rate_of=rate_of,
            extra={**json_value(extra), **own},
        )


def resolve(db: sqlite3.Connection, ref: str) -> str:
    """The id of the run that `ref` names: an id, a tag, @last, @prev, or the unique beginning of an id.

    Raises UsageError, naming the candidates, for a word that names none or several.
    """
    if ref in _RELATIVE:
        return _nth_newest(db, ref)
    if not _NAME.fullmatch(ref):
        raise _unknown(db, ref)
    exact = db.execute(
        "SELECT id FROM runs WHERE id = ?1 UNION ALL "
        "SELECT id FROM tags JOIN runs USING (run) WHERE tag = ?1 LIMIT 1",
        (ref,),
    ).fetchone()
    if exact:
        return str(exact[0])
    # The beginnings of an id are a range of the index: '~' sorts after all that ids are made of.
    found = [
        row[0]
        for row in db.execute(
            "SELECT id FROM runs WHERE id BETWEEN ?1 AND ?1 || '~' ORDER BY id DESC", (ref,)
        )
    ]
    if len(found) == 1:
        return str(found[0])
    raise _ambiguous(ref, found) if found else _unknown(db, ref)


def _nth_newest(db: sqlite3.Connection, ref: str) -> str:
    found = db.execute("SELECT id FROM runs ORDER BY id DESC LIMIT 1 OFFSET ?", (_RELATIVE[ref],)).fetchone()
    if found is None:
        raise _unknown(db, ref)
    return str(found[0])


def _ambiguous(ref: str, found: list[str]) -> UsageError:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return UsageError(
        f"{ref!r} names {len(found)} runs: {', '.join(found[:_NAMED])}{more}", "write more of the id"
    )


def _unknown(db: sqlite3.Connection, ref: str) -> UsageError:
    newest = [row[0] for row in db.execute("SELECT id FROM runs ORDER BY id DESC LIMIT ?", (_NAMED,))]
    known = f"the newest runs are {', '.join(newest)}" if newest else "the history has no runs yet"
    return UsageError(
        f"no run is named {ref!r}: {known}", "zcopy history list names them all" if newest else ""
    )
