"""`zcopy history` as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from zcopy.history import spool
from zcopy.history.location import HistorySettings
from zcopy.history.store import Store
from zcopy.model import Outcome, Row, Run, Status

Make = Callable[..., Run]
History = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def history(stored: HistorySettings) -> History:
    """Run `zcopy history …` on a store with three runs, with these changes to the environment."""

    def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
        return subprocess.run(
            [sys.executable, "-m", "zcopy", "history", *words],
            env={**kept, "ZCOPY_DB": str(stored.db), **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def lines(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_a_list_that_is_piped_has_full_ids_whatever_the_width(history: History, make_run: Make) -> None:
    header, *rows = lines(history("list", COLUMNS="20"))
    assert header == ["id", "command", "status", "exit", "started", "rows", "label", "tags", "host"]
    assert [row[0] for row in rows] == [make_run(number).id for number in (2, 1, 0)]
    assert rows[0] == [make_run(2).id, "fill", "ok", "0", make_run().started, "1", "noisy [/x]", "", "box"]


def test_a_narrow_table_drops_columns_and_never_cuts_ids(history: History, make_run: Make) -> None:
    done = history("list", "--format", "table", COLUMNS="45")
    assert make_run(2).id in done.stdout
    assert "started" not in done.stdout.splitlines()[1]


def test_a_label_is_never_markup(history: History) -> None:
    done = history("list", "--format", "table", FORCE_COLOR="1")
    assert "noisy [/x]" in done.stdout


def test_the_list_as_json(history: History, make_run: Make) -> None:
    document = json.loads(history("list", "--json").stdout)
    assert document["schema"] == "zcopy.list/1"
    assert [run["id"] for run in document["runs"]] == [make_run(number).id for number in (2, 1, 0)]
    assert document["runs"][0] == {
        "id": make_run(2).id,
        "command": "fill",
        "status": "ok",
        "exit": 0,
        "started": "2026-11-30T21:05:01Z",
        "host": "box",
        "rows": 1,
        "label": "noisy [/x]",
        "tags": [],
    }


def test_the_list_is_limited_and_filtered(history: History, stored: HistorySettings, make_run: Make) -> None:
    with Store.open(stored) as store:
        store.save(make_run(3, command="handoff", status=Status.FAILED, exit=1))
    assert [row[0] for row in lines(history("list", "--limit", "2"))[1:]] == [make_run(3).id, make_run(2).id]
    assert len(lines(history("list", "--command", "fill"))) == 4
    assert [row[0] for row in lines(history("list", "--status", "failed"))[1:]] == [make_run(3).id]
    assert history("list", "--limit", "0").returncode == 2
    assert history("list", "--status", "odd").returncode == 2


def test_a_run_as_json_is_its_own_document(history: History, make_run: Make) -> None:
    done = history("show", "@last", "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(make_run(2, saved=True).document()))


def test_a_run_as_a_table_has_its_facts_warnings_and_medians(history: History, make_run: Make) -> None:
    done = history("show", make_run(1).id, "--format", "table")
    for text in (f"run {make_run(1).id}", "ok (exit 0)", "cpu held", "the box is busy", "4 KiB", "memfd"):
        assert text in done.stdout


def test_a_run_as_tsv_is_its_rows_with_everything(
    history: History, stored: HistorySettings, make_run: Make
) -> None:
    rows = (*make_run().rows, Row({"route": "pipe", "list": [1]}, Outcome.REFUSED, "the kernel said no"))
    with Store.open(stored) as store:
        store.save(make_run(4, rows=rows))
    header, *found = lines(history("show", "@last"))
    cells: list[dict[str, Any]] = [dict(zip(header, row, strict=True)) for row in found]
    assert cells[0]["case.buffer"] == "memfd"
    assert cells[0]["median.write_ns"] == "2"
    assert cells[0]["faults"] == "7"
    assert cells[1]["reason"] == "the kernel said no"
    assert cells[1]["case.list"] == "[1]"
    assert cells[1]["median.write_ns"] == ""


def test_beside_each_median_stands_its_spread(
    history: History, stored: HistorySettings, make_run: Make
) -> None:
    """One sample, three, and a hundred: from there on there is a tail."""
    case = {"route": "pipe"}
    rows = [Row(case, ns={"write": tuple(range(1, n + 1))}) for n in (1, 3, 100)]
    for number, some in ((5, rows[:2]), (6, rows)):
        with Store.open(stored) as store:
            store.save(make_run(number, rows=tuple(some)))
        header, *found = lines(history("show", "@last"))
        cells = [dict(zip(header, row, strict=True)) for row in found]
        seen = [(row["n.write"], row["min.write_ns"], row["max.write_ns"]) for row in cells]
        assert seen == [("1", "1", "1"), ("3", "1", "3"), ("100", "1", "100")][: len(some)]
        tails = [row.get("p99.write_ns") for row in cells]
        assert tails == ([None, None] if number == 5 else ["", "", "99"])


@pytest.mark.parametrize(("ref", "text"), [("nope", "no run is named 'nope'"), ("2026", "names 3 runs")])
def test_a_name_that_does_not_fit_is_one_line_and_2(history: History, ref: str, text: str) -> None:
    done = history("show", ref)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_history_is_an_empty_list(history: History, stored: HistorySettings) -> None:
    done = history("list", "--json", "--db", str(stored.db.with_name("other.db")))
    assert json.loads(done.stdout)["runs"] == []
    assert not stored.db.with_name("other.db").exists()


def test_a_corrupt_history_is_one_line_and_74(history: History, stored: HistorySettings) -> None:
    stored.db.write_bytes(b"x" * 4096)
    done = history("list")
    assert (done.returncode, done.stdout) == (74, "")
    assert f"history {stored.db}: it is corrupt (SQLITE_NOTADB)" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert stored.db.read_bytes() == b"x" * 4096


def test_a_lost_history_is_warned_about(history: History, stored: HistorySettings) -> None:
    stored.db.write_bytes(b"")
    done = history("list")
    assert done.returncode == 0
    assert "was empty (0 bytes)" in done.stderr


def test_spooled_runs_are_listed(history: History, stored: HistorySettings, make_run: Make) -> None:
    spool.put(stored, make_run(8))
    assert lines(history("list"))[1][0] == make_run(8).id


def test_help_loads_neither_sqlite_nor_numpy_nor_rich() -> None:
    program = (
        "import sys; sys.argv = ['zcopy', 'history', 'list', '--help']\n"
        "from zcopy.cli.main import run\n"
        "run(); print(sorted({'sqlite3', 'numpy', 'rich', 'zcopy.native'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
