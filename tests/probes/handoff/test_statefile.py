"""The state file's private folder: never left behind, never taken from a run that lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from zcopy.errors import MeasurementError
from zcopy.probes.handoff.statefile import StateFile, sweep

RUNNER = """
import signal, sys
from pathlib import Path
from zcopy.probes.handoff.statefile import StateFile
file = StateFile(Path(sys.argv[1]), fresh=False)
Path(file.next()).write_bytes(b"rows")
print(file.next(), flush=True)
signal.pause()
"""


@pytest.fixture
def other_run() -> Callable[[Path], tuple[subprocess.Popen[str], Path]]:
    """A run in another process, and the state file it has written."""

    def start(folder: Path) -> tuple[subprocess.Popen[str], Path]:
        command = [sys.executable, "-c", RUNNER, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    return start


def test_a_reused_file_has_one_path(tmp_path: Path) -> None:
    with closing(StateFile(tmp_path, fresh=False)) as file:
        paths = {file.next() for _ in range(3)}
        assert len(paths) == 1
        Path(paths.pop()).write_bytes(b"x")
        file.used()
        assert Path(file.next()).read_bytes() == b"x"


def test_a_fresh_file_is_new_and_goes_after_use(tmp_path: Path) -> None:
    with closing(StateFile(tmp_path, fresh=True)) as file:
        first, second = file.next(), file.next()
        assert first != second
        Path(second).write_bytes(b"x")
        file.used()
        assert not Path(second).exists()
        file.used()  # nothing was written: nothing to remove


def test_closing_removes_the_folder_and_all_in_it(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "deep/below", fresh=False)
    Path(file.next()).write_bytes(b"x")
    assert (tmp_path / "deep/below").stat().st_mode & 0o777 == 0o700
    file.close()
    file.close()
    assert list((tmp_path / "deep/below").iterdir()) == []
    with pytest.raises(MeasurementError, match="closed"):
        file.next()


def test_the_folder_is_private(tmp_path: Path) -> None:
    with closing(StateFile(tmp_path, fresh=False)) as file:
        folder = Path(file.next()).parent
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700


def test_two_runs_do_not_meet(tmp_path: Path) -> None:
    with closing(StateFile(tmp_path, fresh=False)) as one, closing(StateFile(tmp_path, fresh=False)) as other:
        assert one.next() != other.next()
        Path(one.next()).write_bytes(b"1")
        Path(other.next()).write_bytes(b"2")
        assert Path(one.next()).read_bytes() == b"1"


def test_the_filesystem_is_named(tmp_path: Path) -> None:
    with closing(StateFile(tmp_path, fresh=False)) as file:
        assert file.filesystem not in ("", "unknown")
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        with closing(StateFile(memory, fresh=False)) as file:
            assert file.filesystem == "tmpfs"


@pytest.mark.usefixtures("nothing_left")
def test_what_a_killed_run_left_is_swept(
    tmp_path: Path, other_run: Callable[[Path], tuple[subprocess.Popen[str], Path]]
) -> None:
    process, state = other_run(tmp_path)
    with process:
        with closing(StateFile(tmp_path, fresh=True)):
            assert state.read_bytes() == b"rows"  # its run lives
        process.send_signal(signal.SIGKILL)
    assert state.exists()
    StateFile(tmp_path, fresh=False).close()
    assert list(tmp_path.iterdir()) == []


def test_sweeping_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "handoff-notes.txt").write_text("mine")
    (tmp_path / "handoff-mine").mkdir()
    (tmp_path / "handoff-mine/paper").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/lock").touch()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "lock").touch()
    (tmp_path / "handoff-link").symlink_to(victim)
    before = sorted(tmp_path.rglob("*"))
    sweep(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("nothing_left")
def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MeasurementError, match=r"--state-dir .*file/below: Not a directory \(ENOTDIR\)"):
        StateFile(tmp_path / "file/below", fresh=False)


def test_a_folder_without_its_lock_is_swept_only_when_it_is_empty(tmp_path: Path) -> None:
    """A run that was killed between making its folder and locking it leaves just that."""
    empty, full = tmp_path / "handoff-empty", tmp_path / "handoff-full"
    empty.mkdir()
    full.mkdir()
    (full / "precious").touch()
    sweep(tmp_path)
    assert not empty.exists()
    assert (full / "precious").exists()
