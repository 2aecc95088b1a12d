"""A real llama.cpp server as a process of ours: up on loopback, and gone however things end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zcopy.engines.llama import server as module
from zcopy.engines.llama.model import Shape, random_model
from zcopy.engines.llama.server import Server, Setup, unavailable
from zcopy.engines.llama.slots import Slot
from zcopy.errors import MeasurementError, SkippedError

pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("no_socket_left")]

SECOND = 10**9


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if lack := unavailable():
        pytest.skip(lack)
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    return random_model(Shape(2, 2, 64), tmp_path_factory.mktemp("models"))


@pytest.fixture
def start(model: Path, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def new(
        path: Path | None = None, deadline_s: float = 60, environ: dict[str, str] | None = None
    ) -> Server:
        setup = Setup(path or model, 512, tmp_path)
        more = {"deadline_ns": int(deadline_s * SECOND), "ticks": time.monotonic_ns}
        made.append(Server("the server", setup, environ={**os.environ, **(environ or {})}, **more))
        return made[-1]

    yield new
    for one in made:
        one.close()


def gone(pid: int, within: float = 20) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_two_serve_side_by_side_on_loopback_alone(start: Any) -> None:
    one, other = start(), start()
    assert one.client.url != other.client.url
    for each in (one, other):
        assert each.client.url.startswith("http://127.0.0.1:")
        Slot(each.client).check(512)


def test_closed_it_is_gone_and_closing_twice_is_fine(start: Any) -> None:
    one = start()
    one.close()
    one.close()
    assert not Path(f"/proc/{one.pid}").exists()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "failed to open|No such file|failed to load"),
        (b"", "."),
        (b"GGUF", "."),
        (b"text" * 100, "magic|failed"),
    ],
)
def test_a_model_that_is_none_is_one_line(data: bytes | None, told: str, start: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(MeasurementError, match=rf"the server did not start: .*({told})") as caught:
        start(path)
    assert "\n" not in caught.value.message


def test_a_truncated_model_is_one_line(start: Any, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    with pytest.raises(MeasurementError, match="the server did not start"):
        start(path)


def test_one_that_is_not_ready_in_time_is_told(start: Any) -> None:
    with pytest.raises(MeasurementError, match="the server was not ready in time"):
        start(deadline_s=0.01)


def test_killed_it_is_one_line_that_names_the_signal(start: Any) -> None:
    one = start()
    os.kill(one.pid, signal.SIGKILL)
    with pytest.raises(MeasurementError, match=r"the server (went away|is not there) \(killed by SIGKILL\)"):
        Slot(one.client).check(1)


def test_a_file_one_byte_short_ends_it_which_is_one_line_too(start: Any, tmp_path: Path) -> None:
    """What zcopy itself never gives it: see probes/llama/promptfile.py."""
    slot = Slot(start().client)
    tokens = range(5, 25)
    slot.prefill(tokens)
    size = slot.save("a.bin").bytes
    os.truncate(tmp_path / "a.bin", size - 1)
    with pytest.raises(MeasurementError, match=r"the server went away \(killed by SIGABRT\)"):
        slot.restore("a.bin")


def test_it_goes_with_whoever_started_it(model: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from zcopy.engines.llama.server import *;"
        "one = Server('it', Setup(Path(sys.argv[1]), 512, Path(sys.argv[2])), deadline_ns=6 * 10**10,"
        " ticks=time.monotonic_ns, environ=os.environ); print(one.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, model, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.kill()
    assert gone(pid)


def test_a_users_own_preload_is_kept(start: Any) -> None:
    """A path that does not exist: the loader only complains, and zcopy has no reason to remove it."""
    one = start(environ={"LD_PRELOAD": "/nonexistent/mine.so"})
    assert b"LD_PRELOAD=/nonexistent/mine.so\0" in Path(f"/proc/{one.pid}/environ").read_bytes()


def test_without_the_wheel_it_is_skipped_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(SkippedError, match=r"pip install 'zcopy\[llama\]'"):
        Server("it", Setup(tmp_path, 1, tmp_path), deadline_ns=SECOND, ticks=time.monotonic_ns, environ={})
