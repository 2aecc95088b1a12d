from __future__ import annotations

import os
from pathlib import Path

from zcopy.history.files import create_private, is_private, set_aside
from zcopy.history.location import history_settings


def test_spools_are_beside_the_store_then_in_the_temporary_folders(tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    beside, temporary, last = history_settings(db, {"TMPDIR": "/var/tmp"}).spools
    assert beside == tmp_path / "a.db.spool"
    assert temporary.parent == Path("/var/tmp")
    assert last == Path("/tmp") / temporary.name
    other = history_settings(tmp_path / "b.db", {}).spools[1]
    assert other.name != temporary.name
    assert len(history_settings(db, {}).spools) == 2


def test_a_folder_is_private_only_when_it_is_ours_and_closed(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    assert not is_private(folder, None)
    folder.mkdir(0o700)
    assert is_private(folder, None)
    (tmp_path / "link").symlink_to(folder)
    assert not is_private(tmp_path / "link", None)
    folder.chmod(0o710)
    assert not is_private(folder, None)
    if os.geteuid() == 0:
        folder.chmod(0o700)
        os.chown(folder, 65534, 65534)
        assert not is_private(folder, None)
        assert is_private(folder, (65534, 65534))


def test_an_existing_file_is_not_created_again(tmp_path: Path) -> None:
    path = tmp_path / "f"
    fd = create_private(path, None)
    assert fd is not None
    os.close(fd)
    assert create_private(path, None) is None


def test_a_corrupt_store_goes_aside_with_its_log_and_only_once(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    for name in ("h.db", "h.db-wal", "h.db-shm", "h.db.corrupt-T"):
        (tmp_path / name).write_text(name)
    facts = db.stat()
    corrupt = (facts.st_dev, facts.st_ino)
    assert set_aside(db, corrupt, "T", 1) == tmp_path / "h.db.corrupt-T-2"
    assert (tmp_path / "h.db.corrupt-T-2-wal").read_text() == "h.db-wal"
    assert (tmp_path / "h.db.corrupt-T-2-shm").read_text() == "h.db-shm"
    assert set_aside(db, corrupt, "T", 1) is None
    db.write_text("a new one")
    assert set_aside(db, corrupt, "T", 1) is None
    assert db.read_text() == "a new one"
