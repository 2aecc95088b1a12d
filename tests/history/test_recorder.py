from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from zcopy.history import spool
from zcopy.history.files import folder_lock
from zcopy.history.location import HistorySettings
from zcopy.history.reader import open_to_show
from zcopy.history.recorder import NullRecorder, Recorder
from zcopy.history.schema import KNOWN
from zcopy.history.store import Store
from zcopy.model import Row, Run, Status

Make = Callable[..., Run]
Record = Callable[[HistorySettings, Run], Run]


def codes(run: Run) -> list[str]:
    return [warning.code for warning in run.warnings if warning.code != "load"]


def ids(settings: HistorySettings) -> list[str]:
    with Store.open_to_read(settings) as store:
        return [run.id for run in store.runs()]


def spooled(settings: HistorySettings) -> list[Path]:
    return sorted(path for folder in settings.spools for path in folder.glob("*"))


def test_a_run_is_saved_and_says_so(settings: HistorySettings, make_run: Make, record: Record) -> None:
    done = record(settings, make_run())
    assert done == make_run(saved=True)
    with Store.open_to_read(settings) as store:
        assert store.load(done.id) == done
    assert spooled(settings) == []


def test_each_row_is_there_for_others_before_the_run_ends(settings: HistorySettings, make_run: Make) -> None:
    run = make_run()
    recorder = Recorder(settings)
    recorder.begin(run.with_(rows=()))
    with Store.open_to_read(settings) as store:
        begun = store.load(run.id)
        assert (begun.status, begun.exit, begun.rows) == (Status.INTERRUPTED, 130, ())
        recorder.row(run.rows[0])
        assert store.load(run.id).rows == run.rows
        recorder.finish(run)
        assert store.load(run.id).status is Status.OK


def test_rows_that_come_only_at_the_end_are_saved_too(settings: HistorySettings, make_run: Make) -> None:
    run = make_run(rows=(*make_run().rows, Row({"late": 1})))
    recorder = Recorder(settings)
    recorder.begin(run.with_(rows=()))
    recorder.row(run.rows[0])
    recorder.finish(run)
    with Store.open_to_read(settings) as store:
        assert store.load(run.id).rows == run.rows


def test_no_save_keeps_nothing(make_run: Make) -> None:
    recorder = NullRecorder()
    recorder.begin(make_run())
    recorder.row(make_run().rows[0])
    assert recorder.finish(make_run()) == make_run()


def test_a_newer_schema_sends_the_run_to_the_spool(
    stored: HistorySettings, make_run: Make, record: Record
) -> None:
    db = sqlite3.connect(stored.db)
    db.execute(f"PRAGMA user_version = {KNOWN + 1}")
    db.close()
    before = stored.db.read_bytes()
    done = record(stored, make_run(9))
    assert not done.saved
    assert codes(done) == ["not-saved"]
    (path,) = spooled(stored)
    text = done.warnings[-1].text
    assert "was written by a newer zcopy" in text
    assert str(path) in text
    assert stored.db.read_bytes() == before
    assert Run.parse(json.loads(path.read_text())) == make_run(9)
    assert len(ids(stored)) == 3


def test_the_next_command_takes_the_spool_up_once(
    settings: HistorySettings, make_run: Make, record: Record
) -> None:
    spool.put(settings, make_run(1))
    assert [path.stat().st_mode & 0o777 for path in spooled(settings)] == [0o600]
    assert settings.spools[0].stat().st_mode & 0o777 == 0o700
    record(settings, make_run(2))
    assert spooled(settings) == []
    record(settings, make_run(3))
    assert ids(settings) == [make_run(number).id for number in (3, 2, 1)]
    with Store.open_to_read(settings) as store:
        assert store.load(make_run(1).id) == make_run(1, saved=True)


def test_showing_the_history_takes_the_spool_up(settings: HistorySettings, make_run: Make) -> None:
    spool.put(settings, make_run(1))
    with open_to_show(settings) as store:
        assert [run.id for run in store.runs()] == [make_run(1).id]
    assert spooled(settings) == []


def test_a_spooled_file_that_is_no_run_is_kept_and_told_once(
    settings: HistorySettings, make_run: Make, record: Record
) -> None:
    spool.put(settings, make_run(1))
    bad = settings.spools[0] / "x.json"
    bad.write_text('{"schema": "zcopy.run/1"}')
    assert codes(record(settings, make_run(2))) == ["spool-unreadable"]
    assert codes(record(settings, make_run(3))) == []
    assert [path.name for path in spooled(settings)] == ["x.json.bad"]
    assert len(ids(settings)) == 3


def test_a_spool_that_others_can_write_is_neither_used_nor_read(
    settings: HistorySettings, make_run: Make, record: Record, tmp_path: Path
) -> None:
    spool.put(settings, make_run(1))
    settings.spools[0].chmod(0o777)
    path = spool.put(settings, make_run(2))
    assert path is not None
    assert path.parent == settings.spools[1]
    assert len(list(settings.spools[0].iterdir())) == 1
    planted = tmp_path / "planted"
    planted.symlink_to(settings.spools[1])
    assert not spool.waiting(replace(settings, spools=(planted,)))
    record(settings, make_run(3))
    assert ids(settings) == [make_run(3).id, make_run(2).id]


def test_a_spool_is_not_written_while_another_process_takes_it_up(
    settings: HistorySettings, make_run: Make
) -> None:
    spool.put(settings, make_run(1, status=Status.INTERRUPTED))
    writer = threading.Thread(target=spool.put, args=(settings, make_run(1)))
    with folder_lock(settings.spools[0], 1) as alone:
        assert alone
        writer.start()
        writer.join(0.2)
        (path,) = settings.spools[0].glob("*.json")
        assert Run.parse(json.loads(path.read_text())).status is Status.INTERRUPTED
    writer.join()
    assert Run.parse(json.loads(path.read_text())).status is Status.OK


def test_a_store_that_is_free_again_at_the_end_saves_the_whole_run(
    stored: HistorySettings, make_run: Make
) -> None:
    holder = sqlite3.connect(stored.db, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    run = make_run(5)
    recorder = Recorder(replace(stored, timeout=0.05))
    recorder.begin(run.with_(rows=()))
    recorder.row(run.rows[0])
    (path,) = spooled(stored)
    partial = Run.parse(json.loads(path.read_text()))
    assert (partial.status, partial.rows) == (Status.INTERRUPTED, run.rows)
    holder.execute("ROLLBACK")
    holder.close()
    assert recorder.finish(run) == run.with_(saved=True)
    assert spooled(stored) == []


def test_a_spool_taken_up_while_its_run_goes_on_loses_nothing(
    stored: HistorySettings, make_run: Make, record: Record
) -> None:
    holder = sqlite3.connect(stored.db, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    run = make_run(5)
    recorder = Recorder(replace(stored, timeout=0.05))
    recorder.begin(run.with_(rows=()))
    holder.execute("ROLLBACK")
    record(stored, make_run(6))  # takes the beginning of run 5 up
    assert spooled(stored) == []
    recorder.row(run.rows[0])
    holder.execute("BEGIN IMMEDIATE")
    assert not recorder.finish(run).saved
    holder.execute("ROLLBACK")
    holder.close()
    record(stored, make_run(7))
    with Store.open_to_read(stored) as store:
        assert store.load(run.id) == run.with_(saved=True)


def test_where_nothing_can_be_written_the_result_is_still_returned(
    tmp_path: Path, make_run: Make, record: Record
) -> None:
    (tmp_path / "file").write_text("")
    nowhere = tmp_path / "file" / "history.db"
    done = record(HistorySettings(nowhere, (tmp_path / "file" / "spool",)), make_run())
    assert not done.saved
    assert done.rows == make_run().rows
    assert "could not be spooled either" in done.warnings[-1].text
