from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from zcopy.history.faults import Fault, StoreError
from zcopy.history.location import HistorySettings, history_settings
from zcopy.history.schema import KNOWN, upgrade
from zcopy.history.store import Store
from zcopy.model import Run

Start = Callable[..., subprocess.Popen[str]]
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

SAVE = """
import json, os, sys
from pathlib import Path
from zcopy.history.location import history_settings
from zcopy.history.store import Store
from zcopy.model import Run
os.umask(int(sys.argv[2], 8))
with Store.open(history_settings(Path(sys.argv[1]), {})) as store:
    store.save(Run("20261130-210501-a", "fill", "2026-11-30T21:05:01Z", "0.1.0"))
    names = os.listdir(Path(sys.argv[1]).parent)
    print(json.dumps({name: os.stat(Path(sys.argv[1]).parent / name).st_mode & 0o7777 for name in names}))
"""
# Root passes through every mode, so the process that lists becomes nobody once everything is imported.
LIST = """
import os, sys
from pathlib import Path
from zcopy.errors import ZcopyError
from zcopy.history.location import history_settings
from zcopy.history.reader import open_to_show
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    with open_to_show(history_settings(Path(sys.argv[1]), {})) as store:
        print(len(store.runs()))
except ZcopyError as error:
    print(error.message, error.hint)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", ["000", "077", "022", "777"])
def test_folder_and_files_are_private_whatever_the_umask(tmp_path: Path, python: Start, umask: str) -> None:
    db = tmp_path / "made" / "zcopy" / "history.db"
    out, _ = python(SAVE, db, umask).communicate()
    assert out.strip() == ("{" + ", ".join(f'"{name}": {0o600}' for name in _written_order(out)) + "}")
    assert set(_written_order(out)) == {"history.db", "history.db-wal", "history.db-shm"}
    assert mode(db.parent) == mode(db.parent.parent) == 0o700


def _written_order(out: str) -> list[str]:
    import json

    return list(json.loads(out))


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    folder.chmod(0o750)
    Store.open(history_settings(folder / "a.db", {})).close()
    assert mode(folder) == 0o750
    assert mode(folder / "a.db") == 0o600


def test_the_store_has_a_write_ahead_log_and_survives_a_power_cut(stored: HistorySettings) -> None:
    with Store.open(stored) as store:
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_an_empty_file_is_used_but_warned_about_once(
    stored: HistorySettings, make_run: Callable[..., Run]
) -> None:
    stored.db.write_bytes(b"")
    with Store.open_to_read(stored) as store:
        assert [warning.code for warning in store.warnings] == ["history-empty"]
        assert store.runs() == []
    assert stored.db.stat().st_size == 0
    with Store.open(stored) as store:
        assert [warning.code for warning in store.warnings] == ["history-empty"]
        store.save(make_run())
    with Store.open(stored) as store:
        assert store.warnings == ()
        assert len(store.runs()) == 1


def test_a_first_run_is_not_warned_about(settings: HistorySettings) -> None:
    with Store.open(settings) as store:
        assert store.warnings == ()


def newer(settings: HistorySettings, *statements: str) -> bytes:
    db = sqlite3.connect(settings.db, isolation_level=None)
    for statement in (*statements, "UPDATE meta SET value = '9.9.9'", f"PRAGMA user_version = {KNOWN + 1}"):
        db.execute(statement)
    db.close()
    return settings.db.read_bytes()


def test_a_newer_schema_is_read_but_not_written(stored: HistorySettings) -> None:
    before = newer(stored, "ALTER TABLE runs ADD COLUMN mood TEXT")
    with Store.open_to_read(stored) as store:
        assert len(store.runs()) == 3
        store.load(store.resolve("@last"))
    with pytest.raises(StoreError, match=r"zcopy 9\.9\.9, schema \d+; this is .*, which knows \d+") as caught:
        Store.open(stored)
    assert caught.value.fault is Fault.NEWER
    assert stored.db.read_bytes() == before
    assert [path.name for path in stored.db.parent.iterdir()] == ["history.db"]


def test_a_newer_schema_that_cannot_be_read_says_who_wrote_it(stored: HistorySettings) -> None:
    newer(stored, "ALTER TABLE runs RENAME COLUMN host_name TO hostname")
    with Store.open_to_read(stored) as store, pytest.raises(StoreError, match=r"zcopy 9\.9\.9") as caught:
        store.runs()
    assert caught.value.fault is Fault.NEWER


def test_a_newer_status_is_listed_and_not_called_damage(stored: HistorySettings) -> None:
    newer(stored, "UPDATE runs SET status = 'paused'")
    with Store.open_to_read(stored) as store:
        assert {run.status for run in store.runs()} == {"paused"}
        with pytest.raises(StoreError) as caught:
            store.load(store.resolve("@last"))
    assert caught.value.fault is Fault.NEWER


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    settings = HistorySettings(tmp_path / "notes.db", ())
    db = sqlite3.connect(settings.db)
    db.execute("CREATE TABLE notes (a)")
    db.close()
    before = settings.db.read_bytes()
    for opening in (Store.open, Store.open_to_read):
        with pytest.raises(StoreError) as caught:
            opening(settings)
        assert caught.value.fault is Fault.FOREIGN
    assert settings.db.read_bytes() == before


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    settings = HistorySettings(tmp_path / "odd", ())
    make(settings.db)
    for opening in (Store.open, Store.open_to_read):
        with pytest.raises(StoreError, match="not a regular file"):
            opening(settings)


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    settings = HistorySettings(tmp_path / "link.db", ())
    settings.db.symlink_to(tmp_path / "target")
    with pytest.raises(StoreError):
        Store.open(settings)
    assert not (tmp_path / "target").exists()


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"file/history\.db: it cannot be opened \(Not a directory\)"):
        Store.open(HistorySettings(tmp_path / "file" / "history.db", ()))


def hand_over(stored: HistorySettings, folder: Path) -> Path:
    """The store in a folder that nobody's process may read and not write."""
    shared = folder / "shared"
    shutil.copytree(stored.db.parent, shared)
    for path in shared.iterdir():
        path.chmod(0o444)
    shared.chmod(0o555)
    return shared / "history.db"


def test_a_read_only_folder_can_be_read(stored: HistorySettings, open_folder: Path, python: Start) -> None:
    db = hand_over(stored, open_folder)
    out, _ = python(LIST, db).communicate()
    assert out == "3\n"
    assert [path.name for path in db.parent.iterdir()] == ["history.db"]


def test_rows_that_are_only_in_the_log_are_not_overlooked(
    stored: HistorySettings,
    make_run: Callable[..., Run],
    open_folder: Path,
    python: Start,
) -> None:
    with Store.open(stored) as store:
        store.save(make_run(7))
        db = hand_over(stored, open_folder)
    assert python(LIST, db).communicate()[0] == "4\n"
    db.parent.chmod(0o755)
    db.with_name("history.db-shm").unlink()
    db.parent.chmod(0o555)
    # Without -shm SQLite cannot read the log here: it must say so and never show three runs.
    assert "cannot be opened (SQLITE_CANTOPEN" in python(LIST, db).communicate()[0]


def test_an_older_schema_in_a_read_only_folder_is_read_from_memory(
    settings: HistorySettings, open_folder: Path, python: Start
) -> None:
    settings.db.parent.mkdir(parents=True)
    old = sqlite3.connect(settings.db, isolation_level=None)
    upgrade(old, "old", known=KNOWN - 1)
    old.close()
    db = hand_over(settings, open_folder)
    assert python(LIST, db).communicate()[0] == "0\n"


@root_only
def test_root_leaves_no_files_of_its_own_in_a_users_folder(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir()
    os.chown(home, 65534, 65533)
    settings = history_settings(home / ".local" / "state" / "zcopy" / "history.db", {})
    assert settings.owner == (65534, 65533)
    with Store.open(settings) as store:
        store.save(Run("a", "fill", "2026-11-30T21:05:01Z", "0.1.0"))
        owners = {(path.stat().st_uid, path.stat().st_gid) for path in [home, *home.rglob("*")]}
        assert len(list(home.rglob("*"))) == 6
    assert owners == {(65534, 65533)}


@root_only
def test_roots_own_folder_stays_roots(tmp_path: Path) -> None:
    assert history_settings(tmp_path / "history.db", {}).owner is None


def test_a_store_that_another_process_keeps_locked(
    stored: HistorySettings, make_run: Callable[..., Run]
) -> None:
    holder = sqlite3.connect(stored.db, isolation_level=None)
    with Store.open(replace(stored, timeout=0.05)) as store:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process kept it locked") as caught:
            store.save(make_run(5))
        assert caught.value.fault is Fault.BUSY
        holder.execute("ROLLBACK")
        store.save(make_run(5))
    holder.close()
