from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from zcopy.draft import Draft


def test_the_target_changes_at_once_and_nothing_else_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    with Draft(target) as draft:
        assert target.read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 2
        draft.commit(b"new")
        assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_without_commit_there_was_nothing(tmp_path: Path) -> None:
    draft = Draft(tmp_path / "out")
    draft.close()
    draft.close()
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    for _ in range(20):
        with Draft(tmp_path / "out") as draft:
            draft.commit(b"x")
        Draft(tmp_path / "out").close()
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


def test_two_drafts_of_one_target_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with Draft(target) as one, Draft(target) as two:
        two.commit(b"two")
        one.commit(b"one")
    assert target.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [target]


def test_an_old_file_keeps_mode_and_owner(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.touch(0o640)
    if os.geteuid() == 0:
        os.chown(target, 65534, 65534)
    old = target.stat()
    with Draft(target) as draft:
        draft.commit(b"x")
    new = target.stat()
    assert stat.S_IMODE(new.st_mode) == 0o640
    assert (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid)


def test_a_target_that_cannot_be_is_known_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Draft(tmp_path / "none" / "out")
    with pytest.raises(OSError, match="File name too long"):
        Draft(tmp_path / ("x" * 300))
