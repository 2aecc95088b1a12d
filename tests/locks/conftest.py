from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zcopy.locks import Clock, Held, LockSettings, acquire

WORKER = Path(__file__).with_name("worker.py")
PATIENCE_S = 60.0  # before a test takes something for hung


class Worker:
    """A running worker.py and what it has told so far."""

    def __init__(self, argv: list[str], environ: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ)
        self.told: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def expect(self, event: str, within_s: float = PATIENCE_S) -> dict[str, Any]:
        """The next thing told under this name; other things told before it are passed over."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no {event!r} within {within_s} s; told: {self.told}")
            if not line:
                assert self.process.stderr is not None
                pytest.fail(f"ended without {event!r}; told: {self.told}; {self.process.stderr.read()}")
            self.told.append(json.loads(line))
            if self.told[-1]["event"] == event:
                return self.told[-1]

    def finish(self) -> int:
        """Let it release and end."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.finish()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A lock folder that every user can reach and write to, as /run/lock is on Debian."""
    path = Path(tempfile.mkdtemp(prefix="zcopy-locks-test-", dir="/tmp"))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def worker(folder: Path) -> Iterator[Callable[..., Worker]]:
    """Starts a worker: ``worker("gpu0", wait_ns=…)``; `via` is put before its command line."""
    running: list[Worker] = []

    def start(
        *devices: str, via: tuple[str, ...] = (), environ: dict[str, str] | None = None, **order: Any
    ) -> Worker:
        asked = {"dir": str(folder), "devices": devices, **order}
        argv = [*via, sys.executable, str(WORKER), json.dumps(asked)]
        running.append(Worker(argv, {**os.environ, **(environ or {})}))
        return running[-1]

    yield start
    for one in running:
        one.kill()


@pytest.fixture
def script() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a script that locks a file with flock(1), and returns when it has the lock."""
    if shutil.which("flock") is None:
        pytest.skip("flock(1) is not installed")
    running: list[subprocess.Popen[str]] = []

    def start(path: Path, *command: str) -> subprocess.Popen[str]:
        argv = ["flock", str(path), "sh", "-c", 'echo locked; exec "$@"', "sh", *(command or ("sleep", "60"))]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        return process

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def clock() -> Clock:
    return Clock(time.monotonic_ns, time.time_ns)


@pytest.fixture
def take(folder: Path, clock: Clock) -> Callable[..., Held]:
    """`acquire` in this process: tries only, unless told otherwise."""

    def call(*devices: str, settings: LockSettings | None = None, **changes: Any) -> Held:
        options: dict[str, Any] = {"wait_ns": 0, "label": "test", "notify": print, "clock": clock}
        return acquire(devices, settings or LockSettings(lock_dir=folder), **(options | changes))

    return call


def _lockers(path: Path, waiting: bool) -> int:
    inode = f":{path.stat().st_ino} "
    lines = Path("/proc/locks").read_text().splitlines()
    return sum("FLOCK" in line and inode in line and ("->" in line) == waiting for line in lines)


@pytest.fixture
def until_waiting() -> Callable[[Path, int], None]:
    """Returns as soon as `count` processes stand in the kernel's queue for the file."""

    def wait(path: Path, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists() or _lockers(path, waiting=True) < count:
            assert time.monotonic() < deadline, Path("/proc/locks").read_text()
            time.sleep(0.01)

    return wait


@pytest.fixture
def free() -> Callable[[Path], bool]:
    """Whether flock(1) can take the file now."""
    return lambda path: subprocess.run(["flock", "-n", str(path), "true"], check=False).returncode == 0
