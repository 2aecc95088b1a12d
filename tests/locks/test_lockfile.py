from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zcopy.errors import RefusedError
from zcopy.locks import Held, LockSettings
from zcopy.locks.procfs import Mount


def plant_link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def plant_dangling_link(path: Path, target: Path) -> None:
    path.symlink_to(target.with_name("nothing"))


def plant_hard_link(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def plant_fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def plant_folder(path: Path, _: Path) -> None:
    path.mkdir()


def plant_socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


Plant = Callable[[Path, Path], None]
PLANTS: dict[Plant, str] = {
    plant_link: "symbolic link",
    plant_dangling_link: "symbolic link",
    plant_hard_link: "2 hard links",
    plant_fifo: "FIFO",
    plant_folder: "folder",
    plant_socket: "not a regular file",
}


@pytest.fixture(params=PLANTS, ids=lambda plant: plant.__name__)
def plant(request: pytest.FixtureRequest) -> Iterator[Plant]:
    yield request.param


def test_what_was_planted_is_refused_at_once_and_left_alone(
    plant: Plant, folder: Path, take: Callable[..., Held]
) -> None:
    target = folder / "precious"
    target.write_text("precious\n")
    plant(folder / "gpu0.lock", target)
    before = (folder / "gpu0.lock").lstat()
    begun = time.monotonic()
    with pytest.raises(RefusedError, match=PLANTS[plant]) as refused:
        take("gpu0", wait_ns=None)
    assert time.monotonic() - begun < 1
    assert str(folder / "gpu0.lock") in refused.value.message
    assert "remove it" in refused.value.hint
    assert target.read_text() == "precious\n"
    assert (folder / "gpu0.lock").lstat().st_ino == before.st_ino
    assert {path.name for path in folder.iterdir()} == {"gpu0.lock", "precious"}


def test_a_bad_second_device_is_refused_before_the_first_is_waited_for(
    folder: Path, worker: Callable[..., object], take: Callable[..., Held]
) -> None:
    worker("cpu").expect("held")  # type: ignore[attr-defined]
    (folder / "gpu0.lock").mkdir()
    with pytest.raises(RefusedError, match="folder"):
        take("cpu", "gpu0", wait_ns=None)


def test_a_note_planted_as_a_link_is_not_followed(folder: Path, take: Callable[..., Held]) -> None:
    target = folder / "precious"
    target.write_text("")
    (folder / "gpu0.note").symlink_to(target)
    with take("gpu0") as held:
        assert held.states[0].state == "held"
    assert target.read_text() == ""


def test_a_new_lock_file_is_for_everybody_whatever_the_umask(folder: Path, take: Callable[..., Held]) -> None:
    old = os.umask(0o077)
    try:
        take("gpu0").release()
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"gpu0.lock": 0o666, "gpu0.note": 0o666}


def test_no_open_creates_what_is_there(take: Callable[..., Held], monkeypatch: pytest.MonkeyPatch) -> None:
    """Under fs.protected_regular an O_CREAT without O_EXCL would fail on another user's file."""
    flags: list[int] = []
    real = os.open

    def spy(path: object, flag: int, *rest: int) -> int:
        flags.append(flag)
        return real(path, flag, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", spy)
    take("gpu0").release()
    take("gpu0").release()
    making = [flag for flag in flags if flag & os.O_CREAT]
    assert making and all(flag & os.O_EXCL for flag in making)
    assert len(making) == 2  # the lock and its note, the first time
    assert not any(flag & os.O_TRUNC for flag in flags)
    assert all(flag & os.O_CLOEXEC for flag in flags)


def test_what_somebody_wrote_into_the_lock_file_stays(folder: Path, take: Callable[..., Held]) -> None:
    (folder / "gpu0.lock").write_text("4711\n")
    with take("gpu0"):
        assert (folder / "gpu0.lock").read_text() == "4711\n"
    assert (folder / "gpu0.lock").read_text() == "4711\n"


def test_a_sites_own_file_is_locked_and_never_written(
    folder: Path, take: Callable[..., Held], free: Callable[[Path], bool]
) -> None:
    own = folder / "site-gpu"
    own.touch()
    with take("gpu0", settings=LockSettings(lock_dir=folder, files={"gpu0": own})):
        assert not free(own)
        assert own.read_bytes() == b""
        assert not (folder / "gpu0.lock").exists()
    assert free(own)
    assert own.read_bytes() == b""


def test_two_names_of_one_file_are_one_lock(folder: Path, take: Callable[..., Held]) -> None:
    own = folder / "accelerators"
    settings = LockSettings(lock_dir=folder, files={"gpu0": own, "npu0": own})
    with take("npu0", "gpu0", "cpu", settings=settings) as held:
        assert [(lock.device, lock.state) for lock in held.states] == [
            ("cpu", "held"),
            ("gpu0", "held"),
            ("npu0", "held"),
        ]
        assert len(held.fds) == 2


def test_a_network_file_system_is_refused(take: Callable[..., Held], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zcopy.locks.procfs.mount", lambda _: Mount("00:2a", "nfs4"))
    with pytest.raises(RefusedError, match=r"network file system \(nfs4\)") as refused:
        take("gpu0")
    assert "ZCOPY_LOCK_DIR" in refused.value.hint


def test_a_folder_that_is_missing_under_a_site_file_is_a_hard_error(
    folder: Path, take: Callable[..., Held]
) -> None:
    settings = LockSettings(lock_dir=folder, files={"gpu0": folder / "none/gpu"})
    with pytest.raises(RefusedError, match="No such file"):
        take("gpu0", settings=settings, wait_ns=None)
