from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.history import schema
from zcopy.history.location import HistorySettings
from zcopy.history.schema import KNOWN, STEPS, is_foreign, upgrade, version_of, writer_of
from zcopy.history.store import Store
from zcopy.model import Run


def connect(path: Path | str = ":memory:") -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def tables(db: sqlite3.Connection) -> list[tuple[str, str]]:
    columns = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
    return sorted(db.execute(columns).fetchall())


def insert_run(db: sqlite3.Connection) -> None:
    """A run as the second step's table takes it."""
    db.execute("INSERT INTO facts VALUES (1, x'00', '{}')")
    db.execute(
        "INSERT INTO runs (id, command, started, version, status, exit, host_name, host, key, argv, params,"
        " locks, warnings) VALUES ('20250101-000000-old', 'fill', '2025-01-01T00:00:00Z', '0.0', 'ok', 0, '',"
        " 1, 1, '[]', '{}', '[]', '[]')"
    )


@pytest.mark.parametrize("version", range(KNOWN + 1))
def test_every_earlier_schema_is_upgraded_to_the_same_tables(version: int) -> None:
    blank, older = connect(), connect()
    upgrade(blank, "new")
    upgrade(older, "old", known=version)
    assert version_of(older) == version
    upgrade(older, "new")
    assert tables(older) == tables(blank)
    assert version_of(older) == KNOWN
    assert writer_of(older) == ("old" if version == KNOWN else "new")


@pytest.mark.parametrize("version", range(2, KNOWN + 1))
def test_runs_of_every_earlier_schema_are_kept(
    version: int, settings: HistorySettings, make_run: Callable[..., Run]
) -> None:
    settings.db.parent.mkdir(parents=True)
    old = connect(settings.db)
    upgrade(old, "old", known=version)
    insert_run(old)
    old.close()
    with Store.open(settings) as store:
        store.save(make_run())
        assert [run.id for run in store.runs()] == [make_run().id, "20250101-000000-old"]
        assert store.load("20250101-000000-old").version == "0.0"


def test_a_step_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half (a)")
        raise sqlite3.OperationalError("no")

    db = connect()
    monkeypatch.setattr(schema, "STEPS", (*STEPS, broken))
    with pytest.raises(sqlite3.OperationalError):
        upgrade(db, "new", known=KNOWN + 1)
    assert version_of(db) == 0
    assert tables(db) == []


def test_a_file_that_others_upgraded_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, other = connect(tmp_path / "a.db"), connect(tmp_path / "a.db")
    real, seen = version_of, []

    def late(connection: sqlite3.Connection) -> int:
        seen.append(real(connection))
        if len(seen) == 1:  # between our first look and the lock
            upgrade(other, "other")
            other.execute(f"PRAGMA user_version = {KNOWN + 3}")
        return seen[0] if len(seen) == 1 else real(connection)

    monkeypatch.setattr(schema, "version_of", late)
    upgrade(db, "ours")
    assert real(db) == KNOWN + 3
    assert writer_of(db) == "other"


def test_another_programs_database_is_told_from_ours() -> None:
    db = connect()
    assert not is_foreign(db)
    db.execute("CREATE TABLE notes (a)")
    assert is_foreign(db)
    ours = connect()
    upgrade(ours, "new")
    assert not is_foreign(ours)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("SELECT id FROM runs WHERE command = 'a' ORDER BY id DESC", "runs_of_command"),
        ("SELECT id FROM runs WHERE key = 1 ORDER BY id", "runs_of_key"),
        ("SELECT row FROM rows WHERE run = 1 ORDER BY ordinal", "rows_of_run"),
        ("SELECT row FROM rows WHERE case_fact = 1 AND run > 2", "rows_of_case"),
        ("SELECT tag FROM tags WHERE run = 1", "tags_of_run"),
    ],
)
def test_every_index_serves_what_it_is_for(query: str, index: str) -> None:
    db = connect()
    upgrade(db, "new")
    plan = " ".join(str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert index in plan
    assert "TEMP B-TREE" not in plan
