"""A side that is killed: the other one ends what it has, and the next run finds nothing in its way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zcopy.model import Outcome, Row
from zcopy.probes.handoff.statefile import StateFile, sweep

DECODER = """
import os, sys, time
from zcopy.host import Host
from zcopy.probes.base import Context
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.probes.handoff.probe import HandoffProbe
params = HandoffParams(
    cache=Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"]), lengths=(Length(64, 64),), routes=("file",),
    regions=("reused",), reps=1_000_000, state_dirs=(sys.argv[1],),
)
quiet = lambda *_: None
list(HandoffProbe(params).measure(Context(Host.read(), time.monotonic_ns, quiet, quiet, os.environ)))
"""


def until(what: Callable[[], object], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def gone(pid: int) -> bool:
    """Ended: at most a zombie that whoever adopted it has not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("handoff-*/*")}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A decoder in the middle of the file route, its provider's pid, and the state folder."""
    states = tmp_path / "states"
    decoder = subprocess.Popen([sys.executable, "-c", DECODER, str(states)], cwd=tmp_path)
    children = Path(f"/proc/{decoder.pid}/task/{decoder.pid}/children")
    until(lambda: "state-0.bin" in names(states) and children.read_text().split())
    (provider,) = (int(pid) for pid in children.read_text().split())
    yield decoder, provider, states
    for pid in (decoder.pid, provider):
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)
    decoder.wait()


def test_a_killed_decoder_takes_its_provider_and_its_file_along(
    running: tuple[subprocess.Popen[bytes], int, Path],
) -> None:
    decoder, provider, states = running
    decoder.kill()
    decoder.wait()
    until(lambda: gone(provider))
    assert names(states) == {"lock"}
    sweep(states)
    assert list(states.iterdir()) == []


def test_a_killed_provider_fails_its_row(running: tuple[subprocess.Popen[bytes], int, Path]) -> None:
    decoder, provider, states = running
    os.kill(provider, signal.SIGKILL)
    assert decoder.wait(20) == 0  # the probe has come to its end
    assert list(states.iterdir()) == []


def test_the_next_run_sweeps_when_both_are_killed(
    running: tuple[subprocess.Popen[bytes], int, Path], measure: Callable[..., list[Row]]
) -> None:
    decoder, provider, states = running
    for pid in (provider, decoder.pid):
        os.kill(pid, signal.SIGSTOP)  # so that neither sees the other's end
    for pid in (provider, decoder.pid):
        os.kill(pid, signal.SIGKILL)
    decoder.wait()
    until(lambda: gone(provider))
    assert names(states) == {"lock", "state-0.bin"}
    (row,) = measure((), routes=["file"])  # looks that its state folder, the same one, is empty at the end
    assert row.outcome is Outcome.OK


def test_a_run_that_lives_is_not_swept(running: tuple[subprocess.Popen[bytes], int, Path]) -> None:
    *_, states = running
    sweep(states)
    assert "lock" in names(states)


def test_a_sweep_follows_no_link(tmp_path: Path) -> None:
    """In a folder that others may write to, a planted link must not say what is removed."""
    precious, states = tmp_path / "precious", tmp_path / "states"
    for folder in (precious, states):
        folder.mkdir()
    for name in ("lock", "letters"):
        (precious / name).write_text("dear")
    (states / "handoff-evil").symlink_to(precious)
    StateFile(states, fresh=False).close()
    assert {path.name for path in precious.iterdir()} == {"lock", "letters"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_sweep_leaves_what_is_another_user_s(tmp_path: Path) -> None:
    other = tmp_path / "handoff-other"
    other.mkdir()
    (other / "lock").touch()
    os.chown(other, 65534, 65534)
    sweep(tmp_path)
    assert (other / "lock").exists()


@pytest.mark.usefixtures("nothing_left")
def test_a_folder_that_a_sweep_took_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run may sweep between the making of our folder's lock and the locking."""
    import fcntl

    honest = fcntl.flock
    swept: list[Path] = []

    def late(fd: int, operation: int) -> None:
        if not swept:
            swept.extend(tmp_path.glob("handoff-*"))
            (swept[0] / "lock").unlink()
            swept[0].rmdir()
        honest(fd, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    state = StateFile(tmp_path, fresh=False)
    assert Path(state.next()).parent.is_dir()
    assert Path(state.next()).parent not in swept
    state.close()
    assert list(tmp_path.iterdir()) == []
