"""The shipped JSON Schemas against documents that zcopy.model and the history build."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from zcopy.history.reading import RunSummary
from zcopy.model import LockState, Outcome, Row, Run, Status, Warning_
from zcopy.render import Format, Look, render
from zcopy.table import Report

DOCS = Path(__file__).parents[2] / "docs"
ROWS = (
    Row(
        {"route": "file", "cells": 16399, "scatter": False}, bytes=679477248, bytes_copied=1358954496,
        verified=True, ns={"total": (243_000_000, 250_000_000)}, rate_phase="total", extra={"vs_file": 1.0},
    ),
    Row({"route": "shared", "cells": 16399}, verified=True, ns={"total": (122_345,)}, rate_phase="total"),
    Row({"route": "shared", "buffer": "udmabuf"}, Outcome.REFUSED, "the kernel said no"),
    Row({"route": "pipe", "cells": 65536}, Outcome.SKIPPED, "needs 3 GiB, 2 GiB are free", ns={"total": ()}),
)  # fmt: skip
RUN = Run(
    id="20261130-210000-7f3a", command="handoff", started="2026-11-30T21:00:00Z", version="0.1.0",
    argv=("handoff", "--json"), params={"reps": 2, "cells": [16399]}, host={"kernel": "6.12"},
    key={"cpu": "A76"},
    locks=(LockState("cpu", "held"),), warnings=(Warning_("load", "the load is 3.2"),), rows=ROWS, saved=True,
)  # fmt: skip


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((DOCS / name).read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def printed(document: Callable[[], Any]) -> Any:
    return json.loads(render(Report((), document), Format.JSON, Look()))


def changed(*path: str | int, value: object) -> Any:
    document: Any = RUN.document()
    part = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return document


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        RUN.with_(rows=()),
        RUN.with_(status=Status.INTERRUPTED, exit=130, saved=False),
        RUN.with_(
            rows=(Row({}, Outcome.FAILED, "layer 3 differs", verified=False),), status=Status.FAILED, exit=1
        ),
        RUN.with_(rows=(Row({}, extra={"vs_file": float("nan"), "ns_per_cell": float("inf")}),)),
    ],
)
def test_printed_runs_are_valid(run: Run) -> None:
    validator("zcopy.run.schema.json").validate(printed(run.document))


@pytest.mark.parametrize(
    "document",
    [
        changed("extra", value=1),
        changed("schema", value="zcopy.run/2"),
        changed("id", value="Run_1"),
        changed("started", value="2026-11-30 21:00"),
        changed("status", value="interrupted"),
        changed("exit", value=143),
        changed("locks", 0, "state", value="maybe"),
        changed("warnings", 0, "since", value=1),
        changed("rows", 0, "bytes", value=1.5),
        changed("rows", 0, "verified", value=False),
        changed("rows", 0, "ns", "total", value=[1.5]),
        changed("rows", 1, "gbps", value=5.0),
        changed("rows", 2, "gbps", value=5.0),
        changed("rows", 2, "reason", value=None),
        changed("rows", 2, "outcome", value="failed"),
        {key: value for key, value in RUN.document().items() if key != "saved"},
    ],
)
def test_what_a_run_must_not_be_is_invalid(document: Any) -> None:
    assert not validator("zcopy.run.schema.json").is_valid(document)


def test_every_key_of_a_run_and_a_row_is_described() -> None:
    schema = json.loads((DOCS / "zcopy.run.schema.json").read_text())
    assert set(schema["properties"]) == set(RUN.document())
    assert set(schema["$defs"]["row"]["properties"]) == set(Row({}).document())


def test_lists_are_valid() -> None:
    entry = RunSummary(RUN.id, "handoff", "ok", 0, RUN.started, "box", None, 4, ("before",)).document()
    check = validator("zcopy.list.schema.json")
    check.validate({"schema": "zcopy.list/1", "runs": []})
    check.validate({"schema": "zcopy.list/1", "runs": [entry]})
    assert not check.is_valid({"schema": "zcopy.list/1", "runs": [{**entry, "more": 1}]})
    assert not check.is_valid({"schema": "zcopy.list/1", "runs": [{**entry, "rows": None}]})
