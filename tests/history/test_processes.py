"""Many processes at once, and processes that are killed: what was said to be saved is there."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.history.location import HistorySettings
from zcopy.history.recorder import Recorder
from zcopy.history.store import Store
from zcopy.model import Row, Run, Status

Start = Callable[..., subprocess.Popen[str]]

FIRST_RUN = """
import random, sys
from datetime import UTC, datetime
from pathlib import Path
from zcopy.history.ids import new_id
from zcopy.history.location import history_settings
from zcopy.history.recorder import Recorder
from zcopy.model import Row, Run
settings = history_settings(Path(sys.argv[1]), {})
run = Run(new_id(datetime.now(UTC), random.getrandbits), "fill", "2026-11-30T21:00:00Z", "0.1.0")
sys.stdin.read()  # the start: all at once, when the test closes it
recorder = Recorder(settings)
recorder.begin(run)
row = Row({"buffer": "memfd"}, ns={"write": (1, 2, 3)})
recorder.row(row)
done = recorder.finish(run.with_(rows=(row,)))
print(done.id, done.saved, *(warning.code for warning in done.warnings))
"""


def all_at_once(python: Start, db: Path, count: int) -> list[list[str]]:
    """What each of `count` processes says that save their first run at the same moment."""
    read, write = os.pipe()
    processes = [python(FIRST_RUN, db, stdin=read) for _ in range(count)]
    os.close(read)
    os.close(write)
    said = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return said


def test_24_first_runs_on_an_empty_folder_are_24_runs(tmp_path: Path, python: Start) -> None:
    db = tmp_path / "state" / "history.db"
    said = all_at_once(python, db, 24)
    assert [words[1:] for words in said] == [["True"]] * 24
    with Store.open_to_read(HistorySettings(db, ())) as store:
        assert {run.id for run in store.runs()} == {words[0] for words in said}
        assert {(run.status, run.rows) for run in store.runs()} == {("ok", 1)}
        assert len(store.runs()) == 24


@pytest.mark.parametrize(("content", "code"), [(b"", "history-empty"), (b"x" * 9000, "history-corrupt")])
def test_of_many_processes_one_sets_a_lost_store_right(
    tmp_path: Path, python: Start, content: bytes, code: str
) -> None:
    db = tmp_path / "history.db"
    db.write_bytes(content)
    said = all_at_once(python, db, 8)
    assert sorted(words[1:] for words in said) == [["True"]] * 7 + [["True", code]]
    assert len(list(tmp_path.glob("*.corrupt-*"))) == (1 if content else 0)
    with Store.open_to_read(HistorySettings(db, ())) as store:
        assert {run.id for run in store.runs()} == {words[0] for words in said}


REWRITE = """
import sys
from pathlib import Path
from zcopy.history.location import history_settings
from zcopy.history.store import Store
from zcopy.model import Row, Run
with Store.open(history_settings(Path(sys.argv[1]), {})) as store:
    for turn in range(300):
        rows = tuple(Row({"n": n}) for n in range(turn % 2 * 9))
        store.save(Run("a", "fill", "2026-11-30T21:00:00Z", "0.1.0", params={"n": len(rows)}, rows=rows))
"""


def test_a_run_is_read_whole_while_it_is_written_again(tmp_path: Path, python: Start) -> None:
    settings = HistorySettings(tmp_path / "history.db", ())
    with Store.open(settings) as store:
        store.save(Run("a", "fill", "2026-11-30T21:00:00Z", "0.1.0", params={"n": 0}))
        writer = python(REWRITE, settings.db)
        seen = set()
        while writer.poll() is None:
            run = store.load("a")
            assert len(run.rows) == run.params["n"]
            seen.add(len(run.rows))
    assert writer.communicate()[0] == ""
    assert writer.returncode == 0
    assert seen == {0, 9}


def save_for_ever(settings: HistorySettings, prefix: str, said: int) -> None:
    """Save one run after the other, and write each id to `said` once it is called saved."""
    rows = tuple(Row({"buffer": "memfd", "cells": cells}, ns={"write": (1, 2, 3)}) for cells in range(3))
    number = 0
    while True:
        run = Run(f"{prefix}-{number:06d}", "fill", "2026-11-30T21:00:00Z", "0.1.0")
        recorder = Recorder(settings)
        recorder.begin(run)
        for row in rows:
            recorder.row(row)
        if recorder.finish(run.with_(rows=rows)).saved:
            os.write(said, f"{run.id}\n".encode())
        number += 1


def killed(settings: HistorySettings, prefix: str, after: float) -> list[str]:
    """The ids that a process called saved before it was killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            save_for_ever(settings, prefix, write)
        finally:
            os._exit(1)
    os.close(write)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with os.fdopen(read) as said:
        return said.read().split()


def test_nothing_that_was_said_to_be_saved_is_lost_by_kill_9(tmp_path: Path) -> None:
    source, said = random.Random(9), []
    settings = HistorySettings(tmp_path / "history.db", (tmp_path / "spool",))
    for turn in range(40):
        said += killed(settings, f"r{turn:02d}", source.uniform(0, 0.05))
    assert said
    assert not list(tmp_path.glob("*.corrupt-*"))
    with Store.open(settings) as store:
        runs = {run.id: run for run in store.runs()}
        assert set(said) <= set(runs)
        assert {(runs[each].status, runs[each].rows) for each in said} == {("ok", 3)}
        for run in runs.values():  # the interrupted ones are whole as far as they go
            rows = store.load(run.id).rows
            assert [row.case["cells"] for row in rows] == list(range(len(rows)))
            assert run.status in (Status.OK, Status.INTERRUPTED)
    db = sqlite3.connect(settings.db)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


def test_a_first_run_killed_while_it_makes_the_store_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    source = random.Random(7)
    for turn in range(20):
        settings = HistorySettings(tmp_path / str(turn) / "history.db", ())
        said = killed(settings, "a", source.uniform(0, 0.02))
        said += killed(settings, "b", 0.05)
        with Store.open(settings) as store:
            assert set(said) <= {run.id for run in store.runs()}
