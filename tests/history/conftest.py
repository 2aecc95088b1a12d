"""What the history's tests share: settings in a fresh folder, runs to save, and other processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zcopy.history.location import HistorySettings
from zcopy.history.recorder import Recorder
from zcopy.history.store import Store
from zcopy.model import LockState, Row, Run, Warning_


@pytest.fixture
def settings(tmp_path: Path) -> HistorySettings:
    """A store that is not there yet, with its spool beside it and a second one elsewhere."""
    db = tmp_path / "state" / "zcopy" / "history.db"
    return HistorySettings(db, (db.with_name("history.db.spool"), tmp_path / "elsewhere"), timeout=20.0)


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """Build a run whose id ends in the number given."""

    def build(number: int = 0, **changes: Any) -> Run:
        run = Run(
            id=f"20261130-210501-{number:08d}",
            command="fill",
            started="2026-11-30T21:05:01Z",
            version="0.1.0",
            argv=("fill", "--buffer", "memfd"),
            params={"reps": 3, "label": "noisy [/x]"},
            host={"name": "box", "kernel": {"release": "6.12"}},
            key={"kernel": "6.12", "governor": None},
            locks=(LockState("cpu", "held"),),
            warnings=(Warning_("load", "the box is busy"),),
            rows=(
                Row(
                    {"buffer": "memfd", "size": 4096},
                    bytes=4096,
                    bytes_copied=4096,
                    verified=True,
                    ns={"write": (3, 1, 2), "map": (5_000_000_000,), "unused": ()},
                    rate_phase="write",
                    extra={"key": {"flags": ["wc"]}, "faults": 7},
                ),
            ),
        )
        return run.with_(**changes)

    return build


@pytest.fixture
def stored(settings: HistorySettings, make_run: Callable[..., Run]) -> HistorySettings:
    """A store that has three finished runs."""
    with Store.open(settings) as store:
        for number in range(3):
            store.save(make_run(number))
    return settings


@pytest.fixture
def python() -> Callable[..., subprocess.Popen[str]]:
    """Start a Python process on a program text with arguments."""

    def start(program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)

    return start


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that other users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="zcopy-test-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def record() -> Callable[[HistorySettings, Run], Run]:
    """Record a finished run the way a runner does."""

    def begin_to_end(settings: HistorySettings, run: Run) -> Run:
        recorder = Recorder(settings)
        recorder.begin(run.with_(rows=()))
        for row in run.rows:
            recorder.row(row)
        return recorder.finish(run)

    return begin_to_end
