"""`zcopy handoff` from outside: exit codes over mixed rows, signals, locks, what is kept and what is left behind."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/zcopy.run.schema.json").read_text())
SMALL = ("--model", "tiny", "--cells", "16", "--ctx", "64", "--reps", "2")


class Box:
    """A user's home in a folder of the test."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.locks = home / "locks"
        self.locks.mkdir()
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ZCOPY_")},
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "ZCOPY_LOCK_DIR": str(self.locks),
        }

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "zcopy", *words]
        return subprocess.Popen(
            command,
            env=self.environ,
            cwd=self.home,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **more,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def document(self, *words: str) -> tuple[int, Any]:
        code, out, _ = self.run(*words, "--json")
        found = json.loads(out)
        Draft202012Validator(SCHEMA).validate(found)
        assert found["exit"] == code
        return code, found

    def runs(self) -> list[dict[str, Any]]:
        _, out, _ = self.run("history", "list", "--json")
        found: list[dict[str, Any]] = json.loads(out)["runs"]
        return found

    def left(self) -> list[str]:
        return [str(path) for path in (self.home / "cache").rglob("handoff-*")]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def outcomes(document: Any) -> set[tuple[str, str, str]]:
    return {(row["case"]["route"], row["case"]["buffer"], row["outcome"]) for row in document["rows"]}


def test_a_sound_run_is_verified_saved_and_shown(box: Box) -> None:
    code, found = box.document("handoff", *SMALL, "--route", "all")
    assert (code, found["status"], found["saved"]) == (0, "ok", True)
    assert {row["verified"] for row in found["rows"]} == {True}
    assert [lock["state"] for lock in found["locks"]] == ["held"]
    _, shown, _ = box.run("history", "show", found["id"], "--json")
    assert json.loads(shown)["rows"] == found["rows"]
    assert box.left() == []


def test_a_kind_named_and_absent_is_77_beside_ok_rows(box: Box) -> None:
    code, found = box.document("handoff", *SMALL, "--buffer", "memfd,dma-heap:nosuch")
    assert (code, found["status"]) == (77, "skipped")
    assert ("shared", "memfd", "ok") in outcomes(found)
    assert ("shared", "dma-heap:nosuch", "skipped") in outcomes(found)


def test_a_decoder_that_cannot_have_the_memory_still_takes_the_file_route(box: Box) -> None:
    code, found = box.document("handoff", *SMALL, "--buffer", "dma-heap:nosuch")
    assert code == 77
    assert outcomes(found) == {("shared", "dma-heap:nosuch", "skipped"), ("file", "anon", "ok")}


def test_memory_that_cannot_be_exported_is_refused_and_the_file_serves(box: Box) -> None:
    code, found = box.document("handoff", *SMALL, "--buffer", "anon", "--route", "shared")
    assert (code, found["status"]) == (69, "refused")
    code, found = box.document("handoff", *SMALL, "--buffer", "anon")
    assert outcomes(found) == {("shared", "anon", "refused"), ("file", "anon", "ok")}
    assert code == 0


def test_a_state_folder_that_was_named_must_be_one_before_anything_is_measured(box: Box) -> None:
    (box.home / "file").write_text("in the way")
    code, out, err = box.run("handoff", *SMALL, "--state-dir", str(box.home / "file"))
    assert (code, out) == (2, "")
    assert "is not a folder" in err
    assert box.runs() == []


def test_a_failed_row_is_1_in_every_format(box: Box) -> None:
    for words in (("--json",), ("--format", "csv"), ("--format", "table"), ("--format", "md"), ()):
        code, out, _ = box.run("handoff", *SMALL, "--inject", "swap-kv", *words)
        assert code == 1
        assert "wrong row: layer 0 K cell 0" in out


def test_what_was_measured_before_a_signal_is_kept(box: Box) -> None:
    result = box.home / "out.json"
    box.run("handoff", *SMALL, "-o", str(result))
    before = result.read_bytes()
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        words = ("handoff", "--model", "tiny", "--cells", "16,307", "--reps", "1000000", "-o", str(result))
        # The first length alone would take hours: a moment is enough for some rounds of it.
        process = box.start(*words, start_new_session=True)
        with process:
            wait_for(lambda: box.left() != [])
            time.sleep(0.5)
            process.send_signal(number)
            _, err = process.communicate(timeout=30)
        assert process.returncode == code, err
        assert "is left as it was" in err
        assert box.left() == []
    assert result.read_bytes() == before
    kept = box.runs()
    assert [(run["status"], run["exit"]) for run in kept[:2]] == [("interrupted", 143), ("interrupted", 130)]
    _, shown, _ = box.run("history", "show", kept[0]["id"], "--json")
    rows = json.loads(shown)["rows"]
    assert rows and {row["outcome"] for row in rows} == {"ok"}
    assert all(row["ns"]["total"] for row in rows)


def test_an_interrupted_run_prints_one_valid_document(box: Box) -> None:
    words = ("handoff", "--model", "tiny", "--cells", "16", "--ctx", "64", "--reps", "1000000", "--json")
    process = box.start(*words, start_new_session=True)
    with process:
        wait_for(lambda: box.left() != [])
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    found = json.loads(out)
    Draft202012Validator(SCHEMA).validate(found)
    assert (process.returncode, found["status"], found["exit"]) == (143, "interrupted", 143)


def test_inside_an_ancestors_hold_the_run_is_nested(box: Box) -> None:
    box.run("handoff", *SMALL)  # makes the lock file
    with lock_file(box).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, found = box.document("handoff", *SMALL, "--wait", "2s")
    assert (code, [each["state"] for each in found["locks"]]) == (0, ["nested"])


def test_without_locks_the_run_is_marked(box: Box) -> None:
    _, found = box.document("handoff", *SMALL, "--no-lock")
    assert [lock["state"] for lock in found["locks"]] == ["none"]
    assert "no-lock" in {warning["code"] for warning in found["warnings"]}
    box.environ["ZCOPY_NO_LOCK"] = "0"
    _, found = box.document("handoff", *SMALL)
    assert [lock["state"] for lock in found["locks"]] == ["held"]


def test_another_process_with_the_lock_is_waited_for(box: Box) -> None:
    box.run("handoff", *SMALL)
    path = lock_file(box)
    # Not an ancestor of the command: a sibling.
    with subprocess.Popen(["flock", str(path), "sleep", "30"], start_new_session=True) as holder:
        try:
            wait_for(lambda: locked(path))
            code, out, err = box.run("handoff", *SMALL, "--wait", "1s", "--json")
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
    found = json.loads(out)
    Draft202012Validator(SCHEMA).validate(found)
    assert (code, found["exit"], found["rows"]) == (75, 75, [])
    assert "cpu is busy" in err


def test_the_engines_misread_switch_is_told(box: Box) -> None:
    box.environ["ONEBIT_KV_SHARE"] = "0"
    _, found = box.document("handoff", *SMALL, "--route", "file")
    assert "kv-share" in {warning["code"] for warning in found["warnings"]}


def test_a_plan_measures_and_saves_nothing(box: Box) -> None:
    code, out, _ = box.run("handoff", "--plan", "--json", "--buffer", "all", "--route", "all")
    plan = json.loads(out)
    assert (code, plan["schema"]) == (0, "zcopy.plan/1")
    assert plan["cases"] and plan["memory_bytes"] > 0
    assert box.runs() == []


def test_no_save_saves_nothing(box: Box) -> None:
    _, found = box.document("handoff", *SMALL, "--no-save")
    assert found["saved"] is False
    assert box.runs() == []


def test_require_save_is_74_where_the_store_cannot_be(box: Box) -> None:
    (box.home / "state").write_text("no folder")
    code, found = box.document("handoff", *SMALL, "--require-save")
    assert (code, found["saved"]) == (74, False)
    assert "not-saved" in {warning["code"] for warning in found["warnings"]}
    assert {row["outcome"] for row in found["rows"]} == {"ok"}


def lock_file(box: Box) -> Path:
    (path,) = [path for path in box.locks.iterdir() if "cpu" in path.name and path.suffix != ".note"]
    return path


def wait_for(holds: Callable[[], bool]) -> None:
    """Until something has happened; a minute without it is a failure."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_patience_is_only_for_who_did_not_say_how_many(box: Box) -> None:
    """--reps 5 is five, however long they take; the default is five, or three on a box where they take too long."""
    for words, patience in (((), 100 * 10**9), (("--reps", "5"), None)):
        code, found = box.document("handoff", *SMALL[:-2], *words)
        params = found["params"]
        assert (code, params["reps"], params["patience_ns"]) == (0, 5, patience)
