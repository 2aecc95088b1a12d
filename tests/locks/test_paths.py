from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.errors import RefusedError, UsageError
from zcopy.locks import Folders, Held, LockSettings, lock_folder, lock_path, lock_reports

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "run/zcopy", tmp_path / "run", tmp_path / "tmp-locks")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_environment_comes_before_the_configuration(tmp_path: Path) -> None:
    settings = LockSettings(lock_dir=tmp_path / "a", config_dir=tmp_path / "b")
    assert lock_folder(settings).path == tmp_path / "a"
    assert lock_folder(LockSettings(config_dir=tmp_path / "b")).path == tmp_path / "b"


def test_a_missing_folder_that_was_asked_for_is_made_for_everybody(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        lock_folder(LockSettings(lock_dir=tmp_path / "a"))
    finally:
        os.umask(old)
    assert mode(tmp_path / "a") == 0o1777


def test_a_folder_that_was_asked_for_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o750)
    lock_folder(LockSettings(lock_dir=tmp_path / "a"))
    assert mode(tmp_path / "a") == 0o750


def test_what_was_asked_for_and_is_no_folder_is_named_with_its_source(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"file \(from ZCOPY_LOCK_DIR\) is not a folder"):
        lock_folder(LockSettings(lock_dir=tmp_path / "file"))
    with pytest.raises(UsageError, match=r"from the configuration\) cannot be made: No such file"):
        lock_folder(LockSettings(config_dir=tmp_path / "none/none"))


@root_only
def test_the_system_folder_comes_first_and_is_taken_as_root_made_it(folders: Folders) -> None:
    folders.system.mkdir(parents=True)
    folders.run_lock.chmod(0o1777)
    folders.system.chmod(0o775)
    found = lock_folder(LockSettings(folders=folders))
    assert (found.path, found.prefix, found.caution) == (folders.system, "", None)


@root_only
def test_run_lock_only_where_every_user_may_write(folders: Folders) -> None:
    folders.run_lock.mkdir(mode=0o755)
    # Root could write here, but would then not meet the users' locks.
    assert lock_folder(LockSettings(folders=folders)).path == folders.fallback
    folders.run_lock.chmod(0o1777)
    settings = LockSettings(folders=folders)
    assert lock_path("gpu0", settings) == folders.run_lock / "zcopy-gpu0.lock"
    assert [report.device for report in lock_reports(settings)] == ["gpu0"]


def test_the_fallback_is_made_for_everybody_whatever_the_umask(folders: Folders) -> None:
    old = os.umask(0o077)
    try:
        assert lock_folder(LockSettings(folders=folders)).path == folders.fallback
    finally:
        os.umask(old)
    assert mode(folders.fallback) == 0o1777


def test_looking_makes_nothing(folders: Folders) -> None:
    settings = LockSettings(folders=folders)
    assert lock_folder(settings, create=False).path == folders.fallback
    (report,) = lock_reports(settings, ["gpu0"])
    assert report.use.holder is None
    assert not folders.fallback.exists()


def test_the_maker_repairs_a_fallback_it_left_unfinished(folders: Folders) -> None:
    folders.fallback.mkdir(mode=0o700)
    lock_folder(LockSettings(folders=folders))
    assert mode(folders.fallback) == 0o1777


def test_a_link_in_the_fallbacks_place_is_refused_and_its_target_left_alone(
    folders: Folders, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    folders.fallback.symlink_to(target)
    with pytest.raises(RefusedError, match="not safe"):
        lock_folder(LockSettings(folders=folders))
    assert mode(target) == 0o755
    assert not list(target.iterdir())


@root_only
@pytest.mark.parametrize("wrong", [0o0777, 0o1755, 0o700])
def test_another_users_fallback_must_be_1777(folders: Folders, wrong: int) -> None:
    folders.fallback.mkdir()
    os.chown(folders.fallback, 65534, 65534)
    folders.fallback.chmod(wrong)
    with pytest.raises(RefusedError, match="uid 65534") as refused:
        lock_folder(LockSettings(folders=folders))
    assert "install -d -m 1777" in refused.value.hint


@root_only
def test_another_users_fallback_is_used_with_a_caution(folders: Folders, take: Callable[..., Held]) -> None:
    folders.fallback.mkdir()
    os.chown(folders.fallback, 65534, 65534)
    folders.fallback.chmod(0o1777)
    with take("cpu", settings=LockSettings(folders=folders)) as held:
        (warning,) = held.warnings
    assert warning.code == "lock-folder"
    assert "uid 65534" in warning.text


def test_a_relative_lock_file_of_the_site_is_a_wrong_setting(folder: Path) -> None:
    settings = LockSettings(lock_dir=folder, files={"gpu0": Path("gpu.lock")})
    with pytest.raises(UsageError, match="not an absolute path"):
        lock_path("gpu0", settings)
