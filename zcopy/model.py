"""The values every command speaks in: rows, runs and their JSON document (`zcopy.run/1`).

All are frozen; a run built from its own document is equal to it (`Run.parse(run.document()) == run`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from zcopy.errors import Exit
from zcopy.stats import median
from zcopy.units import gbps

SCHEMA: Final = "zcopy.run/1"

Scalar: TypeAlias = str | int | float | bool | None
Json: TypeAlias = Scalar | Sequence["Json"] | Mapping[str, "Json"]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Outcome(StrEnum):
    """How a case ended. REFUSED is a finding: advertised or expected, tried, and the system said no."""

    OK = "ok"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"


class Status(StrEnum):
    """How a run ended."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Warning_:
    """Something the reader of a number must know; `text` says what to run next where that helps."""

    code: str
    text: str

    def document(self) -> dict[str, str]:
        return {"code": self.code, "text": self.text}


@dataclass(frozen=True, slots=True)
class LockState:
    """A device lock as this run had it: `held` by us, `nested` inside an outer hold, or `none` (--no-lock)."""

    device: str
    state: str

    def document(self) -> dict[str, str]:
        return {"device": self.device, "state": self.state}


_ROW_KEYS: Final = frozenset(
    ("case", "outcome", "reason", "bytes", "bytes_copied", "gbps", "verified", "ns", "median_ns")
)


@dataclass(frozen=True, slots=True)
class Row:
    """One case and what came of it.

    `ns` holds every sample of every phase, in order, in nanoseconds. `bytes` is the payload, `bytes_copied`
    what was moved by the CPU or the kernel. `rate_phase` names the phase that spans exactly the time in which
    `bytes_copied` (or, where `rate_of` is "bytes", `bytes`) moved; medians and the rate are computed from the
    samples whenever they are read. `extra` are the command's own keys.
    """

    case: Mapping[str, Json]
    outcome: Outcome = Outcome.OK
    reason: str | None = None
    bytes: int = 0
    bytes_copied: int = 0
    verified: bool | None = None
    ns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rate_phase: str | None = None
    rate_of: str = "bytes_copied"
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if clash := _ROW_KEYS & set(self.extra):
            raise ValueError(f"extra keys shadow the contract's: {sorted(clash)}")

    @property
    def median_ns(self) -> dict[str, int]:
        return {phase: median(samples) for phase, samples in self.ns.items() if samples}

    @property
    def gbps(self) -> float | None:
        """GB/s (1e9 bytes/s), or None: nothing moved, nothing timed, or the row is not ok."""
        if self.outcome is not Outcome.OK or self.rate_phase is None:
            return None
        moved = self.bytes if self.rate_of == "bytes" else self.bytes_copied
        return gbps(moved, self.median_ns.get(self.rate_phase, 0))

    def document(self) -> dict[str, Json]:
        return {
            "case": dict(self.case),
            "outcome": str(self.outcome),
            "reason": self.reason,
            "bytes": self.bytes,
            "bytes_copied": self.bytes_copied,
            "gbps": self.gbps,
            "verified": self.verified,
            "ns": {phase: list(samples) for phase, samples in self.ns.items()},
            "median_ns": dict(self.median_ns),
            "rate_phase": self.rate_phase,
            "rate_of": self.rate_of,
            **self.extra,
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Row:
        own = (*_ROW_KEYS, "rate_phase", "rate_of")
        return Row(
            case=document["case"],
            outcome=Outcome(document["outcome"]),
            reason=document["reason"],
            bytes=document["bytes"],
            bytes_copied=document["bytes_copied"],
            verified=document["verified"],
            ns={phase: tuple(samples) for phase, samples in document["ns"].items()},
            rate_phase=document.get("rate_phase"),
            rate_of=document.get("rate_of", "bytes_copied"),
            extra={key: value for key, value in document.items() if key not in own},
        )


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation of a measuring command. `started` is UTC, ``YYYY-MM-DDTHH:MM:SSZ``.

    `key` is the comparability key (kernel, driver fingerprints, governor, helper build …): what must be equal
    before two runs may be compared; a row's own part of it is its case and its `key` extra.
    """

    id: str
    command: str
    started: str
    version: str
    argv: tuple[str, ...] = ()
    params: Mapping[str, Json] = field(default_factory=dict)
    host: Mapping[str, Json] = field(default_factory=dict)
    key: Mapping[str, Json] = field(default_factory=dict)
    locks: tuple[LockState, ...] = ()
    warnings: tuple[Warning_, ...] = ()
    rows: tuple[Row, ...] = ()
    status: Status = Status.OK
    exit: int = 0
    saved: bool = False

    def with_(self, **changes: Any) -> Run:
        """A copy with these fields changed."""
        return replace(self, **changes)

    def document(self) -> dict[str, Json]:
        return {
            "schema": SCHEMA,
            "id": self.id,
            "command": self.command,
            "status": str(self.status),
            "exit": self.exit,
            "started": self.started,
            "version": self.version,
            "argv": list(self.argv),
            "params": dict(self.params),
            "host": dict(self.host),
            "key": dict(self.key),
            "locks": [lock.document() for lock in self.locks],
            "warnings": [warning.document() for warning in self.warnings],
            "saved": self.saved,
            "rows": [row.document() for row in self.rows],
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Run:
        """The run a document describes. Raises KeyError or ValueError on one that is not `zcopy.run/1`."""
        if document.get("schema") != SCHEMA:
            raise ValueError(f"schema {document.get('schema')!r} is not {SCHEMA}")
        return Run(
            id=document["id"],
            command=document["command"],
            started=document["started"],
            version=document["version"],
            argv=tuple(document["argv"]),
            params=document["params"],
            host=document["host"],
            key=document.get("key", _NOTHING),
            locks=tuple(LockState(**lock) for lock in document["locks"]),
            warnings=tuple(Warning_(**warning) for warning in document["warnings"]),
            rows=tuple(Row.parse(row) for row in document["rows"]),
            status=Status(document["status"]),
            exit=document["exit"],
            saved=document["saved"],
        )


def judge(rows: Sequence[Row], named: Sequence[tuple[str, str]], stopped: Exit | None) -> tuple[Status, Exit]:
    """A run's status and exit code over mixed rows, by the contract's precedence.

    Args:
        rows: every row of the run.
        named: (case key, value) pairs the user named himself, e.g. ("buffer", "udmabuf"); each must have an
            ok row or the run exits 69 (it was refused) or 77 (it was skipped).
        stopped: the exit of the signal that ended the run, or None.
    """
    if stopped is not None:
        return Status.INTERRUPTED, stopped
    if any(row.outcome is Outcome.FAILED for row in rows):
        return Status.FAILED, Exit.FAILED
    lacking = [_lack(rows, key, value) for key, value in named]
    outcomes = [row.outcome for row in rows]
    if Outcome.REFUSED in lacking or (Outcome.OK not in outcomes and Outcome.REFUSED in outcomes):
        return Status.REFUSED, Exit.REFUSED
    if Outcome.SKIPPED in lacking or Outcome.OK not in outcomes:
        return Status.SKIPPED, Exit.SKIPPED
    return Status.OK, Exit.OK


def _lack(rows: Sequence[Row], key: str, value: str) -> Outcome | None:
    """Why a named kind, route or device has no ok row, or None when it has one."""
    outcomes = {row.outcome for row in rows if row.case.get(key) == value}
    if Outcome.OK in outcomes:
        return None
    return Outcome.REFUSED if Outcome.REFUSED in outcomes else Outcome.SKIPPED
