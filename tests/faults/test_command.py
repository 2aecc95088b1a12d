"""`zcopy handoff` with providers that misbehave: exit 1, a valid document, one reason a row, no traceback."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "zcopy.run.schema.json").read_text())

Command = Callable[..., tuple[str, ...]]


@pytest.fixture
def handoff(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command on 16 cells, with homes, locks and states in a folder of the test."""

    def run(*words: str, provider: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ZCOPY_")},
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "ZCOPY_LOCK_DIR": str(tmp_path / "locks"),
        }
        own = ["--provider-cmd", shlex.join(provider)] if provider else []
        size = ["--model", "tiny", "--cells", "16", "--ctx", "64", "--reps", "2"]
        command = [sys.executable, "-m", "zcopy", "handoff", *size, "--state-dir", str(tmp_path / "states")]
        return subprocess.run(
            [*command, *own, *words],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def document(result: subprocess.CompletedProcess[str]) -> Any:
    """The one document on stdout, which the schema allows; stderr has remarks and nothing else."""
    found = json.loads(result.stdout)
    Draft202012Validator(SCHEMA).validate(found)
    for line in result.stderr.splitlines():
        assert line.startswith(("zcopy: warning: ", "zcopy: ")), result.stderr
        assert "unexpected" not in line
    return found


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("DiesInRequest", "the provider is gone (killed by SIGKILL)"),
        ("RefusesWithoutReason", "the provider refused: it gives no reason"),
        ("LiesAboutTimes", "the provider tells times that cannot be on this box's CLOCK_MONOTONIC"),
    ],
)
def test_every_row_fails_and_the_document_stands(
    mode: str, reason: str, peer: Command, handoff: Callable[..., Any]
) -> None:
    result = handoff("--json", "--route", "shared,copy", provider=peer(mode))
    found = document(result)
    assert (result.returncode, found["exit"], found["status"], found["saved"]) == (1, 1, "failed", True)
    assert [row["outcome"] for row in found["rows"]] == ["failed"] * 3
    assert {row["reason"] for row in found["rows"]} == {reason}
    assert {row["gbps"] for row in found["rows"]} == {None}


def test_the_deadline_is_an_option(peer: Command, handoff: Callable[..., Any]) -> None:
    words = ("--route", "shared", "--region", "reused", "--deadline", "300ms")
    result = handoff("--json", *words, provider=peer("SaysNothing"))
    (row,) = document(result)["rows"]
    assert (result.returncode, row["reason"]) == (1, "the provider did not answer in time")


def test_hostile_text_reaches_a_table_as_text(peer: Command, handoff: Callable[..., Any]) -> None:
    for format in ("table", "tsv"):
        result = handoff("--format", format, "--route", "shared", provider=peer("RefusesHostile"))
        assert result.returncode == 1
        assert "\x1b" not in result.stdout + result.stderr
        assert "\x07" not in result.stdout + result.stderr
        assert "Traceback" not in result.stderr


def test_one_bad_provider_of_many(peer: Command, handoff: Callable[..., Any], tmp_path: Path) -> None:
    once = peer("DiesAtOnce", once=tmp_path / "flag")
    result = handoff("--json", "--route", "all", "--region", "reused", provider=once)
    found = document(result)
    assert [row["outcome"] for row in found["rows"]] == ["failed", "ok", "ok", "ok"]
    assert (result.returncode, found["status"]) == (1, "failed")


def test_a_provider_that_is_not_there(handoff: Callable[..., Any]) -> None:
    result = handoff("--json", "--route", "shared", provider=("/nonexistent/provider",))
    for row in document(result)["rows"]:
        assert row["reason"].startswith("cannot start the provider /nonexistent/provider: No such file")
    assert result.returncode == 1
