"""Locks between users. Root starts the others through setpriv(1); without root there is only one user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECOND = 10**9
Start = Callable[..., Any]
PROTECTED = Path("/proc/sys/fs/protected_regular")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv(1) is not installed"),
]


def as_user(uid: int) -> tuple[str, ...]:
    return ("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--inh-caps=-all")


ADA, BOB = as_user(64001), as_user(64002)


@pytest.fixture(autouse=True)
def others_can_run_us() -> None:
    import_it = [*ADA, sys.executable, "-c", "import zcopy.locks"]
    if subprocess.run(import_it, check=False, capture_output=True).returncode:
        pytest.skip("other users cannot read this Python or this checkout")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_what_one_user_made_another_and_root_can_wait_for_and_take(
    umask: int, folder: Path, worker: Start
) -> None:
    ada = worker("gpu0", via=ADA, umask=umask)
    ada.expect("held")
    assert (folder / "gpu0.lock").stat().st_uid == 64001
    bob = worker("gpu0", via=BOB)
    notice = bob.expect("notice")["text"]
    assert f"uid 64001 (pid {ada.process.pid}" in notice
    ada.finish()
    bob.expect("held")
    root = worker("gpu0")
    root.expect("notice")
    bob.finish()
    root.expect("held")


@pytest.mark.kernel
def test_the_same_under_protected_regular(folder: Path, worker: Start) -> None:
    before = PROTECTED.read_text()
    PROTECTED.write_text("2")
    try:
        with pytest.raises(PermissionError):
            subprocess.run([*ADA, "touch", str(folder / "probe")], check=True)
            os.close(os.open(folder / "probe", os.O_RDWR | os.O_CREAT))
        test_what_one_user_made_another_and_root_can_wait_for_and_take(0o022, folder, worker)
    finally:
        PROTECTED.write_text(before)


def test_where_the_holders_files_are_hidden_the_opener_is_named(worker: Start) -> None:
    root = worker("gpu0", label="by root")
    root.expect("held")
    notice = worker("gpu0", via=BOB).expect("notice")["text"]
    assert f"opened by root (pid {root.process.pid}" in notice
    assert 'label "by root"' in notice


def test_a_lock_file_that_is_not_for_us_is_a_hard_error_with_the_way_out(folder: Path, worker: Start) -> None:
    (folder / "gpu0.lock").touch(mode=0o600)
    error = worker("gpu0", via=BOB).expect("error", within_s=5)
    assert (error["kind"], error["exit"]) == ("RefusedError", 69)
    assert "Permission denied" in error["message"]
    assert f"chmod 0666 {folder}/gpu0.lock" in error["hint"]


def test_a_fifo_that_one_may_only_read_does_not_hang_the_open(folder: Path, worker: Start) -> None:
    os.mkfifo(folder / "gpu0.lock", 0o644)
    bob = worker("gpu0", via=BOB)
    begun = bob.expect("start")["at"]
    error = bob.expect("error", within_s=5)
    assert "FIFO" in error["message"]
    assert error["at"] - begun < 1


def test_a_lock_file_that_we_may_only_read_is_enough(
    folder: Path, worker: Start, free: Callable[[Path], bool]
) -> None:
    (folder / "gpu0.lock").touch()
    (folder / "gpu0.lock").chmod(0o644)
    token = worker("gpu0", via=ADA, label="read only").expect("held")["environ"]
    assert not free(folder / "gpu0.lock")
    assert (folder / "gpu0.lock").read_bytes() == b""
    assert worker("gpu0", via=BOB, environ=token).expect("held")["states"] == {"gpu0": "nested"}
    assert 'label "read only"' in worker("gpu0").expect("notice")["text"]


def test_a_hold_across_a_change_of_user_is_nested(folder: Path, worker: Start) -> None:
    """As `sudo flock FILE sudo -u bob …`: the ancestor's files are hidden, /proc/locks has its pid."""
    via = ("flock", "-o", str(folder / "gpu0.lock"), *BOB)
    assert worker("gpu0", via=via, hold_s=0).expect("held")["states"] == {"gpu0": "nested"}


def test_a_hold_outside_the_pid_namespace_is_still_known_by_its_token_and_note(worker: Start) -> None:
    """As in a container that shares the lock folder: /proc shows neither the holder nor its lock."""
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("unshare(1) cannot make a pid namespace here")
    token = worker("gpu0", label="outside").expect("held")["environ"]
    stranger = worker("gpu0", via=namespace, wait_ns=SECOND // 2)
    assert 'hidden from this one, label "outside"' in stranger.expect("error")["message"]
    assert worker("gpu0", via=namespace, environ=token).expect("held")["states"] == {"gpu0": "nested"}
