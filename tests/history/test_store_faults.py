"""Stores that are corrupt, full or read-only: the result is kept and told about."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zcopy.history.location import HistorySettings
from zcopy.history.recorder import Recorder
from zcopy.history.store import Store
from zcopy.model import Run, Status

Make = Callable[..., Run]
Record = Callable[[HistorySettings, Run], Run]
Start = Callable[..., subprocess.Popen[str]]


def codes(run: Run) -> list[str]:
    return [warning.code for warning in run.warnings if warning.code != "load"]


def ids(settings: HistorySettings) -> list[str]:
    with Store.open_to_read(settings) as store:
        return [run.id for run in store.runs()]


def spooled(settings: HistorySettings) -> list[Path]:
    return sorted(path for folder in settings.spools for path in folder.glob("*"))


def garble_header(db: Path) -> None:
    with db.open("r+b") as file:
        file.write(b"not a database at all")


def garble_pages(db: Path) -> None:
    """Everything but the first page, which has the schema."""
    with db.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (db.stat().st_size - 4096))


def truncate(db: Path) -> None:
    os.truncate(db, 10_000)


@pytest.mark.parametrize("damage", [garble_header, garble_pages, truncate])
def test_a_corrupt_store_is_set_aside_and_the_run_saved_in_a_new_one(
    stored: HistorySettings, make_run: Make, record: Record, damage: Callable[[Path], None]
) -> None:
    damage(stored.db)
    damaged = stored.db.read_bytes()
    done = record(stored, make_run(5))
    assert done.saved
    assert codes(done) == ["history-corrupt"]
    aside = stored.db.with_name("history.db.corrupt-20261130T210501Z")
    assert str(aside) in done.warnings[-1].text
    assert aside.read_bytes() == damaged
    assert codes(record(stored, make_run(6))) == []
    with Store.open_to_read(stored) as store:
        assert store.load(done.id) == done
    assert len(ids(stored)) == 2


def test_damage_that_shows_in_the_middle_of_a_run(stored: HistorySettings, make_run: Make) -> None:
    recorder = Recorder(stored)
    run = make_run(5)
    recorder.begin(run.with_(rows=()))
    stored.db.rename(stored.db.with_name("moved"))  # what another process does to a corrupt store
    recorder.row(run.rows[0])
    assert recorder.finish(run) == run.with_(saved=True)
    assert ids(stored) == [run.id]


RECORD = """
import json, os, resource, sys
from pathlib import Path
from zcopy.history.location import HistorySettings
from zcopy.history.recorder import Recorder
from zcopy.model import Row, Run
db, elsewhere, samples, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
settings = HistorySettings(db, (db.with_name("history.db.spool"), elsewhere))
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
elif os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
run = Run("20261130-220000-big", "fill", "2026-11-30T22:00:00Z", "0.1.0")
rows = (Row({"buffer": "memfd"}, ns={"write": (1,) * samples}),)
recorder = Recorder(settings)
recorder.begin(run)
recorder.row(rows[0])
done = recorder.finish(run.with_(rows=rows))
print(json.dumps(done.with_(rows=()).document()))
"""


def test_a_read_only_home_sends_the_run_to_the_temporary_folder(open_folder: Path, python: Start) -> None:
    home, temporary = open_folder / "home", open_folder / "tmp"
    home.mkdir(mode=0o555)
    temporary.mkdir()
    temporary.chmod(0o1777)
    out, _ = python(RECORD, home / "zcopy" / "history.db", temporary / "spool", 3, 0).communicate()
    done = Run.parse(json.loads(out))
    assert not done.saved
    assert "Permission denied" in done.warnings[0].text
    (path,) = (temporary / "spool").iterdir()
    assert len(Run.parse(json.loads(path.read_text())).rows[0].ns["write"]) == 3
    assert list(home.iterdir()) == []


def test_a_file_that_may_not_grow_sends_the_run_to_the_spool(
    tmp_path: Path, make_run: Make, record: Record, python: Start
) -> None:
    settings = HistorySettings(tmp_path / "history.db", (tmp_path / "history.db.spool",))
    # 100 KB of samples in the store, half as much as JSON: only the latter fits under the limit.
    out, _ = python(RECORD, settings.db, tmp_path / "elsewhere", 25_000, 80_000).communicate()
    done = Run.parse(json.loads(out))
    assert not done.saved
    assert codes(done) == ["not-saved"]
    assert len(spooled(settings)) == 1
    record(settings, make_run())
    with Store.open_to_read(settings) as store:
        assert len(store.load(done.id).rows[0].ns["write"]) == 25_000
        assert store.load(done.id).status is Status.OK
    assert spooled(settings) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 512 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(disk)], stderr=subprocess.DEVNULL
    )
    if not mounted:
        pytest.skip("mounting a small tmpfs takes root")
    yield disk
    subprocess.check_call(["umount", str(disk)])


@pytest.mark.parametrize("created", [False, True])
def test_a_full_disk_never_costs_the_result(
    small_disk: Path, tmp_path: Path, make_run: Make, record: Record, created: bool
) -> None:
    settings = HistorySettings(
        small_disk / "history.db", (small_disk / "history.db.spool", tmp_path / "elsewhere")
    )
    if created:
        record(settings, make_run(0))
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    done = record(settings, make_run(1))
    assert not done.saved
    assert "the disk is full" in done.warnings[-1].text
    (path,) = spooled(settings)
    assert path.parent == tmp_path / "elsewhere"
    assert Run.parse(json.loads(path.read_text())) == make_run(1)
    assert ids(settings) == ([make_run(0).id] if created else [])
    filler.unlink()
    assert record(settings, make_run(2)).saved
    assert spooled(settings) == []
    assert ids(settings) == [make_run(number).id for number in ((2, 1, 0) if created else (2, 1))]
    with Store.open_to_read(settings) as store:
        assert store.load(make_run(1).id) == make_run(1, saved=True)
