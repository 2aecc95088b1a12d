"""A real llama.cpp server as a process of ours: up on loopback, and gone however things end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zcopy.buffers.memfd import sealed
from zcopy.engines.llama import server as module
from zcopy.engines.llama.model import Shape, random_model
from zcopy.engines.llama.server import Server, Setup, unavailable
from zcopy.engines.llama.slots import Slot
from zcopy.errors import MeasurementError, SkippedError
from zcopy.native.provider import helper
from zcopy.native.region import Region

pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("nothing_left")]

SECOND = 10**9


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if lack := unavailable():
        pytest.skip(lack)
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    return random_model(Shape(2, 2, 64), tmp_path_factory.mktemp("models"))


@pytest.fixture
def region() -> Iterator[Region]:
    """For the KV buffer of that model: 512 cells of 2 layers of K and V rows of 2 heads of 64 halves."""
    with sealed("zcopy-kv", 512 * 2 * 2 * 2 * 64 * 2) as one:
        yield one


@pytest.fixture
def start(model: Path, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def new(
        path: Path | None = None, deadline_s: float = 60, environ: dict[str, str] | None = None, **setup: Any
    ) -> Server:
        what = Setup(path or model, 512, tmp_path, **setup)
        more = {"deadline_ns": int(deadline_s * SECOND), "ticks": time.monotonic_ns}
        made.append(Server("the server", what, environ={**os.environ, **(environ or {})}, **more))
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
        assert {peer.partition(":")[0] for peer in listening(each.pid)} == {"0100007F"}


def listening(pid: int) -> list[str]:
    """The local addresses, as the kernel writes them, of the TCP sockets that a process listens on."""
    own = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}  # noqa: PTH115
    tables = "".join(Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    lines = [line.split() for line in tables.splitlines()]
    return [each[1] for each in lines if each[3] == "0A" and f"socket:[{each[9]}]" in own]


def test_closed_it_is_gone_and_closing_twice_is_fine(start: Any) -> None:
    one = start()
    one.close()
    one.close()
    assert not Path(f"/proc/{one.pid}").exists()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, r"failed to open GGUF file '.*bad.gguf' \(No such file or directory\)"),
        (b"", "failed to read magic"),
        (b"GGUF", "failed to read header"),
        (b"text" * 100, "invalid magic characters: 'text', expected 'GGUF'"),
    ],
)
def test_a_model_that_is_none_is_one_line_with_the_servers_reason(
    data: bytes | None, told: str, start: Any, tmp_path: Path
) -> None:
    path = tmp_path / "bad.gguf"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(MeasurementError, match=rf"^the server did not start: [^\n]*\([^\n]*{told}\)$"):
        start(path)


@pytest.mark.parametrize(
    ("kept", "told"), [(3000, "key-value pairs"), (100_000, "not within the file bounds")]
)
def test_a_truncated_model_is_one_line(kept: int, told: str, start: Any, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(model.read_bytes()[:kept])
    with pytest.raises(MeasurementError, match=rf"^the server did not start: [^\n]*{told}[^\n]*$"):
        start(path)


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A model that takes for ever to load: a FIFO that nobody writes to."""
    os.mkfifo(tmp_path / "endless.gguf")
    return tmp_path / "endless.gguf"


def test_one_that_is_not_ready_in_time_is_told(start: Any, endless: Path) -> None:
    with pytest.raises(MeasurementError, match=r"^the server was not ready in time"):
        start(endless, deadline_s=1)


def test_killed_it_is_one_line_that_names_the_signal(start: Any) -> None:
    one = start()
    os.kill(one.pid, signal.SIGKILL)
    with pytest.raises(MeasurementError, match=r"the server (went away|is not there) \(killed by SIGKILL\)"):
        Slot(one.client).check(1)


@pytest.fixture
def hung(start: Any) -> Server:
    """A server that is stopped: it takes connections, as the kernel does that for it, and answers nothing."""
    one = start(deadline_s=2)
    os.kill(one.pid, signal.SIGSTOP)
    return one  # type: ignore[no-any-return]


def test_killed_in_the_middle_of_a_request_it_is_that_line_too(hung: Server) -> None:
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {hung.pid}"])
    with pytest.raises(
        MeasurementError, match=r"^the server went away \(killed by SIGKILL\) \(/completion\)$"
    ):
        Slot(hung.client).complete(range(5, 25), 4)
    assert killer.wait() == 0


def test_one_that_hangs_is_told_at_the_deadline_and_still_ends(hung: Server) -> None:
    with pytest.raises(MeasurementError, match=r"^the server did not answer within 2.00 s \(/props\)$"):
        Slot(hung.client).check(1)
    hung.close()
    assert not Path(f"/proc/{hung.pid}").exists()


def test_a_file_one_byte_short_ends_it_which_is_one_line_too(start: Any, tmp_path: Path) -> None:
    """What zcopy itself never gives it: see probes/llama/promptfile.py."""
    slot = Slot(start().client)
    tokens = range(5, 25)
    slot.prefill(tokens)
    size = slot.save("a.bin").bytes
    os.truncate(tmp_path / "a.bin", size - 1)
    with pytest.raises(MeasurementError, match=r"the server went away \(killed by SIGABRT\)"):
        slot.restore("a.bin")


@pytest.mark.parametrize("loading", [False, True], ids=["serving", "loading"])
def test_it_goes_with_whoever_started_it(loading: bool, model: Path, endless: Path, tmp_path: Path) -> None:
    """And be it killed, and be the server in the middle of loading a model."""
    command = [sys.executable, "-c", OWNER, endless if loading else model, tmp_path]
    with (
        contextlib.ExitStack() as held,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as owner,
    ):
        assert owner.stdout is not None
        try:
            pid = int(owner.stdout.readline())
            if loading:
                held.callback(os.close, writer_of(endless))
            else:
                assert owner.stdout.readline() == "serves\n"
        finally:
            owner.kill()
        assert gone(pid)


def writer_of(fifo: Path) -> int:
    """A descriptor to write to the FIFO with, as soon as somebody reads it."""
    end = time.monotonic() + 20
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert time.monotonic() < end, "nobody reads it"
            time.sleep(0.02)


OWNER = """
import os, sys, time
from pathlib import Path
from zcopy.engines.llama import server
class Telling(server.Process):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        print(self.pid, flush=True)
server.Process = Telling
setup = server.Setup(Path(sys.argv[1]), 512, Path(sys.argv[2]))
one = server.Server("it", setup, deadline_ns=10**12, ticks=time.monotonic_ns, environ=os.environ)
print("serves", flush=True)
time.sleep(600)
"""


def test_a_users_own_preload_is_kept(start: Any) -> None:
    """A path that does not exist: the loader only complains, and zcopy has no reason to remove it."""
    one = start(environ={"LD_PRELOAD": "/nonexistent/mine.so"})
    assert b"LD_PRELOAD=/nonexistent/mine.so\0" in Path(f"/proc/{one.pid}/environ").read_bytes()


def test_ours_is_put_before_it(start: Any, region: Region) -> None:
    one = start(environ={"LD_PRELOAD": "/nonexistent/mine.so"}, kv=(region.fd, region.size))
    preload = f"LD_PRELOAD={helper('zcopy-kv.so')} /nonexistent/mine.so\0".encode()
    assert preload in Path(f"/proc/{one.pid}/environ").read_bytes()
    assert one.maps(os.fstat(region.fd).st_ino)


def test_a_proxy_of_the_environment_is_none_of_its_business(start: Any, monkeypatch: Any) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    Slot(start().client).check(512)


def test_however_much_it_says_it_is_not_kept_waiting(start: Any) -> None:
    """More than a pipe holds, which nobody reads."""
    one = start()
    fd = os.open(f"/proc/{one.pid}/fd/2", os.O_WRONLY | os.O_APPEND)
    with os.fdopen(fd, "wb") as stderr:
        stderr.write(b"x" * (1 << 20))
    Slot(one.client).complete(range(5, 9), 1)


def test_without_the_wheel_it_is_skipped_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(SkippedError, match=r"pip install 'zcopy\[llama\]'"):
        Server("it", Setup(tmp_path, 1, tmp_path), deadline_ns=SECOND, ticks=time.monotonic_ns, environ={})
