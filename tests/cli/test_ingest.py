"""`zcopy ingest` as a process: exit codes, what is saved and when, logs that grow, signals, hostile input."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from zcopy.cli import ingesting
from zcopy.errors import Exit, Stopped
from zcopy.history.recorder import NullRecorder
from zcopy.ingest.collect import Collector
from zcopy.ingest.reading import Reading
from zcopy.model import Run, Status

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/zcopy.run.schema.json").read_text())
LOG = (
    "starting\n"
    "shared KV handoff: 307 cells, 0.122 ms, 0 bytes copied\n"
    "[ph] quant=0.012ms wait=1.20 ms M=16\n"
    "shared KV handoff: 307 cells, 0.130 ms, 0 bytes copied\n"
    "shared KV handoff: 307 cells, nan ms, 0 bytes copied\n"
)
OF_THE_LOG = ("route", "cells")  # keys that a handoff line has itself
WITHIN_S = 60


def line(cells: int) -> str:
    return f"shared KV handoff: {cells} cells, 0.5 ms, 0 bytes copied\n"


class Ingest:
    """zcopy in a home of its own, and the processes that a test has started and not ended."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = home / "engine.log"
        self._started: list[subprocess.Popen[str]] = []
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ZCOPY_")},
            "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config"),
            "ZCOPY_LOCK_DIR": str(home / "locks"),
        }  # fmt: skip

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "zcopy", *words], env=self._environ, cwd=self.home, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **{"stdin": subprocess.DEVNULL, **more},
        )  # fmt: skip
        self._started.append(process)
        return process

    def run(self, *words: str, text: str | None = None, **more: Any) -> tuple[int, str, str]:
        more |= {} if text is None else {"stdin": subprocess.PIPE}
        process = self.start(*words, **more)
        out, err = process.communicate(text, timeout=WITHIN_S)
        return process.returncode, out, err

    def document(self, *words: str, **more: Any) -> dict[str, Any]:
        code, out, err = self.run("ingest", *words, "--json", **more)
        assert out, err
        return self.checked(code, out)

    def checked(self, code: int, out: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(out)
        Draft202012Validator(SCHEMA).validate(found)
        assert found["exit"] == code
        return found

    def follow(self, *words: str) -> subprocess.Popen[str]:
        return self.start("ingest", "--follow", str(self.log), "--json", *words)

    def stop(self, process: subprocess.Popen[str], number: int) -> dict[str, Any]:
        process.send_signal(number)
        out, _ = process.communicate(timeout=WITHIN_S)
        return self.checked(process.returncode, out)

    def append(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)

    def saved(self) -> dict[str, Any]:
        """The newest run of the history, as it is stored now; empty where there is none."""
        code, out, _ = self.run("history", "show", "@last", "--json")
        return json.loads(out) if code == 0 else {}

    def until_saved(self, *cells: int) -> None:
        """Waits until the newest run has exactly these cells."""
        deadline = time.monotonic() + WITHIN_S
        while (found := shared(self.saved())) != list(cells):
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


def shared(run: dict[str, Any]) -> list[int]:
    return [row["case"]["cells"] for row in run.get("rows", ()) if row["case"].get("route") == "shared"]


@pytest.fixture
def zc(tmp_path: Path) -> Iterator[Ingest]:
    found = Ingest(tmp_path)
    yield found
    found.close()


def test_a_log_is_a_run_that_is_printed_and_saved(zc: Ingest) -> None:
    zc.log.write_text(LOG)
    found = zc.document(
        str(zc.log), "--label", "real serving", "--case", "model=qwen3-4b", "--case", "ctx=4608"
    )
    assert (found["command"], found["status"], found["exit"], found["saved"]) == ("ingest", "ok", 0, True)
    assert found["locks"] == []
    phase, handoff = found["rows"]
    assert phase["case"] == {"stage": "ph", "model": "qwen3-4b", "ctx": 4608}
    assert handoff["case"] == {"route": "shared", "cells": 307, "model": "qwen3-4b", "ctx": 4608}
    assert handoff["ns"] == {"adopt": [122_000, 130_000]}
    assert (handoff["verified"], handoff["gbps"], handoff["source"]) == (None, None, "log")
    told = found["params"]["log"]
    assert (told["lines"], told["understood"], told["not_understood"], told["doubtful"]) == (5, 3, 2, 1)
    assert found["params"]["label"] == "real serving"
    assert {warning["code"] for warning in found["warnings"]} == {"doubtful-lines"}
    assert zc.saved()["rows"] == found["rows"]


def test_the_table_and_the_records(zc: Ingest) -> None:
    zc.log.write_text(LOG)
    code, out, _ = zc.run("ingest", str(zc.log), "--format", "table")
    assert code == 0
    assert "3 of 5 lines" in out
    assert [row.split()[1:4] for row in out.splitlines() if "adopt" in row] == [["shared", "307", "adopt"]]
    _, out, _ = zc.run("ingest", str(zc.log))
    head, *rows = (row.split("\t") for row in out.splitlines())
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["median.adopt_ns"] for row in found] == ["", "126000"]
    assert found[1]["n.adopt"] == "2"


def test_lines_that_are_not_understood_are_counted_and_shown_on_demand(zc: Ingest) -> None:
    zc.log.write_text(LOG + "\x1b[31mred\x1b[0m\n")
    _, _, err = zc.run("ingest", str(zc.log))
    assert "6 lines: 3 understood, 3 not (-v shows them)" in err
    assert "starting" not in err
    _, _, err = zc.run("ingest", str(zc.log), "-v")
    assert "zcopy: line 1: starting\n" in err
    assert "zcopy: line 5: nan ms is no time: shared KV handoff" in err
    assert "zcopy: line 6: red\n" in err


@pytest.mark.parametrize("text", ["", "nothing\nof ours\n"])
def test_a_log_without_anything_is_77(zc: Ingest, text: str) -> None:
    zc.log.write_text(text)
    found = zc.document(str(zc.log))
    assert (found["status"], found["exit"], found["rows"]) == ("skipped", 77, [])
    assert [warning["code"] for warning in found["warnings"]] == ["nothing-understood"]


def test_stdin(zc: Ingest) -> None:
    found = zc.document("-", text=LOG.rstrip("\n"))
    assert shared(found) == [307]
    assert found["params"]["file"] == "-"
    assert zc.document("-")["exit"] == 77  # nothing on it


def test_a_pipe_is_saved_while_it_is_silent(zc: Ingest) -> None:
    process = zc.start("ingest", "-", "--json", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(line(307))
    process.stdin.flush()
    zc.until_saved(307)
    out, _ = process.communicate(line(4105), timeout=WITHIN_S)
    assert shared(zc.checked(process.returncode, out)) == [307, 4105]


def test_the_same_log_twice_is_two_runs(zc: Ingest) -> None:
    zc.log.write_text(LOG)
    first, second = zc.document(str(zc.log)), zc.document(str(zc.log))
    assert first["id"] != second["id"]
    assert first["rows"] == second["rows"]


def test_a_log_of_another_box_keeps_no_facts_of_this_one(zc: Ingest) -> None:
    zc.log.write_text(LOG)
    found = zc.document(str(zc.log), "--elsewhere", "strix")
    assert (found["host"], found["key"]) == ({"name": "strix"}, {"command": "ingest", "host": "strix"})
    assert zc.document(str(zc.log))["key"]["kernel"]


def test_a_handoff_has_the_case_of_the_probe_once_the_rest_of_it_is_stated(zc: Ingest) -> None:
    words = ("--model", "tiny", "--cells", "64", "--reps", "1", "--region", "reused")
    code, out, err = zc.run("handoff", "--route", "shared", *words, "--json")
    assert code == 0, err
    probed = json.loads(out)["rows"][0]
    zc.log.write_text(line(64))
    rest = {
        key: json.dumps(value).strip('"') for key, value in probed["case"].items() if key not in OF_THE_LOG
    }
    stated = [word for key, value in rest.items() for word in ("--case", f"{key}={value}")]
    (read,) = zc.document(str(zc.log), *stated)["rows"]
    assert read["case"] == probed["case"]
    assert set(read["ns"]) <= set(probed["ns"])


def test_no_save(zc: Ingest) -> None:
    zc.log.write_text(LOG)
    assert zc.document(str(zc.log), "--no-save")["saved"] is False
    assert zc.saved() == {}


def test_require_save(zc: Ingest) -> None:
    zc.log.write_text(LOG)
    blocked = zc.home / "dir"
    blocked.mkdir()
    assert zc.document(str(zc.log), "--db", str(blocked), "--require-save")["exit"] == 74
    assert zc.document(str(zc.log), "--db", str(blocked))["exit"] == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("none.log",), "none.log: No such file"),
        (("/",), "Is a directory"),
        (("--follow", "-"), "--follow needs the name of a file"),
        (("--follow", "/"), "no regular file"),
        (("--for", "1s", "x"), "--for belongs to --follow"),
        (("--new", "x"), "--new belongs to --follow"),
        (("--case", "cells=3", "x"), "is not KEY=VALUE"),
        (("--case", "model", "x"), "is not KEY=VALUE"),
        (("--case", "model=", "x"), "is not KEY=VALUE"),
        (("--by", "a,,b", "x"), "--by"),
        ((), "FILE"),
    ],
)
def test_wrong_words_are_2_and_save_nothing(zc: Ingest, words: tuple[str, ...], text: str) -> None:
    code, out, err = zc.run("ingest", *words)
    assert (code, out) == (2, "")
    assert text in err
    assert zc.saved() == {}


def test_a_log_that_cannot_be_read_on_is_1_and_keeps_what_there_was(zc: Ingest) -> None:
    """/proc/self/mem begins with a page that is not mapped: reading it is EIO."""
    found = zc.document("/proc/self/mem")
    assert (found["status"], found["exit"]) == ("failed", 1)
    assert "log-unreadable" in {warning["code"] for warning in found["warnings"]}


# Following


def test_follow_takes_lines_as_they_come_and_ends_at_ctrl_c(zc: Ingest) -> None:
    zc.append(line(1))
    process = zc.follow()
    zc.until_saved(1)
    zc.append(line(2) + "shared KV handoff: 3 cells, 0.5")  # the writer is in the middle of a line
    zc.until_saved(1, 2)
    found = zc.stop(process, signal.SIGINT)
    assert (found["status"], found["exit"], found["saved"]) == ("interrupted", 130, True)
    assert shared(found) == [1, 2]
    assert zc.saved()["rows"] == found["rows"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_follow_ends_at_sigterm(zc: Ingest, number: int) -> None:
    process = zc.follow()
    zc.append(line(1))
    zc.until_saved(1)
    assert zc.stop(process, number)["exit"] == 143


def test_follow_survives_rotation_truncation_and_removal(zc: Ingest) -> None:
    zc.append(line(1))
    process = zc.follow()
    zc.until_saved(1)
    zc.log.rename(zc.log.with_suffix(".1"))
    zc.append(line(2))
    zc.until_saved(1, 2)
    zc.log.write_text(line(3))
    zc.until_saved(1, 2, 3)
    zc.log.unlink()
    zc.append(line(4))
    zc.until_saved(1, 2, 3, 4)
    told = zc.stop(process, signal.SIGINT)["params"]["log"]
    assert told["rotated"] == 2
    assert told["understood"] == told["lines"] == 4


def test_follow_waits_for_a_log_that_is_not_there(zc: Ingest) -> None:
    process = zc.follow()
    assert process.stderr is not None
    assert "is not there yet" in process.stderr.readline()
    zc.append(line(1))
    zc.until_saved(1)
    zc.stop(process, signal.SIGINT)


def test_kill_9_loses_nothing_that_was_saved(zc: Ingest) -> None:
    process = zc.follow()
    zc.append(line(1) + line(2))
    zc.until_saved(1, 2)
    process.kill()
    process.wait(WITHIN_S)
    found = zc.saved()
    assert (found["status"], found["exit"]) == ("interrupted", 130)
    assert shared(found) == [1, 2]


def test_a_kill_in_the_middle_of_much_loses_a_moment(zc: Ingest) -> None:
    """A pipe that never ends: what was saved is there whenever the reader is killed."""
    source = subprocess.Popen(["yes", line(307).strip()], stdout=subprocess.PIPE)
    process = zc.start("ingest", "-", stdin=source.stdout)
    zc.until_saved(307)
    process.kill()
    source.kill()
    source.communicate()
    process.wait(WITHIN_S)
    (row,) = zc.saved()["rows"]
    assert len(row["ns"]["adopt"]) > 100


def test_follow_only_what_is_new_for_a_while(zc: Ingest) -> None:
    """The end of --for is an end in order: 0, and a file that is asked for is written."""
    zc.append(line(1))
    process = zc.start("ingest", "--follow", "--new", "--for", "5s", str(zc.log), "-o", "out.json")
    deadline = time.monotonic() + WITHIN_S
    while not zc.saved():  # the run is begun once the place to read from is found
        assert time.monotonic() < deadline
    zc.append(line(2))
    _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, err
    found = zc.checked(0, (zc.home / "out.json").read_text())
    assert (found["status"], shared(found)) == ("ok", [2])


def test_an_interrupted_one_leaves_the_old_file(zc: Ingest) -> None:
    (zc.home / "out.json").write_text("old")
    process = zc.start("ingest", "--follow", str(zc.log), "-o", "out.json")
    zc.append(line(1))
    zc.until_saved(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130
    assert (zc.home / "out.json").read_text() == "old"
    assert "left as it was" in err


def test_the_follower_does_not_spin(zc: Ingest) -> None:
    process = zc.follow()
    zc.append(line(1))
    zc.until_saved(1)

    def ticks() -> int:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(2)
    assert ticks() - before < 0.5 * os.sysconf("SC_CLK_TCK")  # of 2 s
    zc.stop(process, signal.SIGINT)


# A signal where it is least expected


def stopped_once(monkeypatch: pytest.MonkeyPatch, of: object, name: str) -> None:
    """The first call of it is where the signal comes."""
    whole, calls = getattr(of, name), []

    def call(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise Stopped(Exit.INTERRUPTED)
        return whole(*args)

    monkeypatch.setattr(of, name, call)


def read_here(log: bytes) -> Run:
    """`log` read in this process, up to the run that is printed."""
    words = ingesting.Words("engine.log", False, False, None, (), {}, None, None)
    begun = Run("20261130-210000-abc", "ingest", "2026-11-30T21:00:00Z", "0.1.0")
    app: Any = SimpleNamespace(ticks=time.monotonic_ns, note=print, progress=lambda *_: None)
    once = ingesting.Log(iter((log,)), lambda: len(log), lambda: True)
    return ingesting.Ingest(app, words, NullRecorder(), begun, False).run(once)


def test_a_signal_before_the_first_line_is_a_run_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_once(monkeypatch, ingesting, "facts")
    found = read_here(line(1).encode())
    assert (found.status, found.exit, found.rows) == (Status.INTERRUPTED, 130, ())


@pytest.mark.parametrize(("of", "name"), [(Collector, "rows"), (NullRecorder, "finish")])
def test_a_signal_after_the_last_line_leaves_the_run_complete(
    monkeypatch: pytest.MonkeyPatch, of: object, name: str
) -> None:
    stopped_once(monkeypatch, of, name)
    found = read_here(line(1).encode())
    assert (found.status, found.exit, len(found.rows)) == (Status.OK, 0, 1)


# Hostile input


def limited(megabytes: int) -> Callable[[], None]:
    """In the child: an address space that a line or a log held whole would not fit into."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


def test_a_line_of_100_mb_between_good_ones(zc: Ingest) -> None:
    with zc.log.open("wb") as file:
        file.write(line(1).encode())
        for _ in range(100):
            file.write(b"shared KV handoff: " + b"x" * 10**6)
        file.write(b"\n" + line(2).encode())
    found = zc.document(str(zc.log), preexec_fn=limited(300))
    assert shared(found) == [1, 2]
    assert (found["params"]["log"]["too_long"], found["params"]["log"]["lines"]) == (1, 3)


def test_a_gigabyte_of_nothing(zc: Ingest) -> None:
    """The hole that truncation under a writer leaves: NULs, which are no line."""
    with zc.log.open("wb") as file:
        file.write(line(1).encode())
        file.seek(1 << 30)
        file.write(line(2).encode())
    found = zc.document(str(zc.log), preexec_fn=limited(300))
    assert shared(found) == [1, 2]


def test_odd_bytes(zc: Ingest) -> None:
    zc.log.write_bytes(
        b"\xff\xfe\x00garbage\r\n"
        + b"shared KV handoff: 1 cells, 0.5 ms, 0 bytes copied\r\n"
        + b"\x1b[32mshared KV handoff:\x1b[0m 2 cells, 0.5 ms, 0 bytes copied\n"
        + b"sha\0red KV handoff: 3 cells, 0.5 ms, 0 bytes copied\n"
        + b"\xc3 shared KV handoff: 4 cells, 500 \xc2\xb5s, 0 bytes copied"
    )
    assert shared(zc.document(str(zc.log))) == [1, 2, 3, 4]
    code, _, err = zc.run("ingest", "-v", str(zc.log))
    assert code == 0
    assert "\x1b" not in err


def test_what_is_left_out_is_warned_of() -> None:
    reading = Reading()
    reading.collector = Collector(most_cases=2, most_samples=10)
    reading.take("".join(line(cells) for cells in (1, 2, 3)).encode() * 10)
    assert [warning.code for warning in ingesting.warnings(reading)] == ["samples-thinned", "cases-left-out"]
