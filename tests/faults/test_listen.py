"""Engines of somebody else's: a provider that comes to `--listen`, and a decoder that `--connect` serves."""

from __future__ import annotations

import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zcopy.buffers.memfd import sealed
from zcopy.errors import RefusedError
from zcopy.model import Outcome, Row
from zcopy.native import wire
from zcopy.native.listener import Listener
from zcopy.native.rows import Layout, check_rows
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache

MINIMAL = Path(__file__).parents[2] / "docs" / "provider_minimal.py"
Measure = Callable[..., list[Row]]
SECOND = 10**9

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "kv.sock"


@pytest.fixture
def once(place: Path) -> Iterator[Callable[[str, int, int], None]]:
    """Progress that starts the minimal provider as soon as the run is under way, and once only."""
    started: list[subprocess.Popen[bytes]] = []

    def progress(_what: str, _done: int, _total: int) -> None:
        if not started:
            started.append(subprocess.Popen([sys.executable, "-S", MINIMAL, place]))

    yield progress
    assert [one.wait(20) for one in started] == [0]


def test_it_is_short() -> None:
    assert len([line for line in MINIMAL.read_text().splitlines() if line.strip()]) <= 60


@pytest.mark.parametrize("scatter", [False, True])
def test_the_minimal_provider_serves_by_inheritance(scatter: bool, measure: Measure) -> None:
    rows = measure((sys.executable, "-S", str(MINIMAL)), routes=("shared",), scatter=scatter)
    assert [(row.outcome, row.reason, row.case["provider"]) for row in rows] == [
        (Outcome.OK, None, "command")
    ]


def test_a_provider_that_comes_serves(
    place: Path, measure: Measure, once: Callable[[str, int, int], None]
) -> None:
    rows = measure((), routes=("shared",), listen=str(place), progress=once)
    assert [(row.outcome, row.reason, row.verified) for row in rows] == [(Outcome.OK, None, True)]
    assert rows[0].case["provider"] == "listen"
    assert rows[0].extra["key"] == {"writer": "minimal"}
    assert not place.exists()


def test_where_none_comes_the_row_says_so(place: Path, measure: Measure) -> None:
    (row,) = measure((), routes=("shared",), listen=str(place), deadline_ns=SECOND // 5)
    assert (row.outcome, row.reason) == (Outcome.FAILED, f"no provider came to {place} in time")
    assert not place.exists()


def test_nobody_else_can_come(place: Path) -> None:
    before = os.umask(0)
    try:
        with Listener(place):
            assert stat.S_IMODE(place.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_what_a_killed_run_left_is_taken_over(place: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(str(place))
    with Listener(place):
        assert place.is_socket()
    assert not place.exists()


@pytest.mark.parametrize("what", ["file", "folder", "listener", "link"])
def test_what_is_somebody_elses_is_left_alone(what: str, place: Path, tmp_path: Path) -> None:
    made = {
        "file": lambda: place.write_text("mine"),
        "folder": place.mkdir,
        "listener": lambda: None,
        "link": lambda: place.symlink_to(tmp_path / "elsewhere"),
    }
    other = Listener(place) if what == "listener" else None
    made[what]()
    with pytest.raises(RefusedError, match=r"--listen .*(EEXIST|EADDRINUSE)"):
        Listener(place)
    assert os.path.lexists(place)
    if other is not None:
        other.close()


def test_a_path_that_is_too_long_is_told(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="at most 107 bytes"):
        Listener(tmp_path / ("x" * 120))


def test_what_was_put_in_its_place_meanwhile_stays(place: Path) -> None:
    with Listener(place):
        place.unlink()
        place.write_text("mine")
    assert place.read_text() == "mine"


# --connect: the test is the decoder.

CACHE = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])
CELLS, CTX = 5, 64


def connecting(place: Path) -> subprocess.Popen[str]:
    """zcopy as a provider there; not in the checkout, whose package has no native module."""
    command = [sys.executable, "-m", "zcopy", "handoff", "--connect", place]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place.parent
    )


def listening(place: Path) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(20)
    end.bind(str(place))
    end.listen()
    return end


class Decoder:
    """Says what a decoder says, and reads the answers."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer, self.request = peer, 0
        peer.settimeout(20)

    def say(self, kind: wire.Type, body: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        self.request += 1
        socket.send_fds(self.peer, [wire.message(kind, self.request, body)], fds)

    def hear(self) -> tuple[int, bytes]:
        data = self.peer.recv(65536)
        return wire.HEAD.unpack_from(data)[2], data[wire.HEAD.size :]


def test_a_decoder_of_ones_own_is_served(place: Path) -> None:
    tensors, size = CACHE.tensors(CTX)
    layout = Layout(tensors, CTX, size, [(3, CELLS)])
    with listening(place) as door, sealed("mine", size) as region:
        run = connecting(place)
        peer, _ = door.accept()
        with peer:
            decoder = Decoder(peer)
            decoder.say(wire.Type.HELLO, wire.HELLO.pack(1, os.getpid(), 0, 0, b"mine"))
            assert decoder.hear()[0] == wire.Type.HELLO
            head = wire.TENSORS.pack(0, len(tensors), CTX, *CACHE.numbers, 0, size)
            decoder.say(wire.Type.TENSORS, head + layout.tensor_bytes)
            decoder.say(wire.Type.RUNS, wire.RUNS.pack(0, 0, 1, 1) + struct.pack("<II", 3, CELLS))
            decoder.say(
                wire.Type.REGION, wire.REGION.pack(0, 0, -1, wire.RegionFlag.SEALED, size, time.monotonic_ns()),
                (region.fd,),
            )  # fmt: skip
            assert decoder.hear()[0] == wire.Type.MAPPED
            decoder.say(wire.Type.BEGIN, wire.BEGIN.pack(wire.Op.WRITE, 0, 0, 0, 99, 0, 0, 1, 1, 0, 0))
            assert decoder.hear()[0] == wire.Type.DONE
            assert check_rows(region, layout, 99) is None
            decoder.say(wire.Type.BYE)
            out, err = run.communicate(timeout=20)
    assert (run.returncode, out) == (0, "")
    assert "the decoder is done" in err


def test_a_decoder_that_speaks_another_version_is_refused_in_one_line(place: Path) -> None:
    with listening(place) as door:
        run = connecting(place)
        peer, _ = door.accept()
        with peer:
            peer.settimeout(20)
            peer.send(wire.HEAD.pack(wire.MAGIC, 2, wire.Type.HELLO, wire.HEAD.size, 1))
            data = peer.recv(65536)
            assert wire.HEAD.unpack_from(data)[2] == wire.Type.REFUSE
            assert b"protocol version 2, this provider speaks 1" in data
        run.communicate(timeout=20)
        assert run.returncode == 0


def test_where_nobody_listens_it_is_refused(place: Path) -> None:
    run = connecting(place)
    out, err = run.communicate(timeout=20)
    assert (run.returncode, out) == (69, "")
    assert err.count("\n") <= 2
    assert f"--connect {place}: No such file or directory (ENOENT)" in err


def test_ctrl_c_ends_it_with_its_provider(place: Path) -> None:
    with listening(place) as door:
        run = connecting(place)
        peer, _ = door.accept()
        with peer:
            decoder = Decoder(peer)
            decoder.say(wire.Type.HELLO, wire.HELLO.pack(1, os.getpid(), 0, 0, b"mine"))
            _, body = decoder.hear()
            provider = wire.Hello.parse(body).pid
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=20)
    assert run.returncode == 130
    end = time.monotonic() + 20  # a signal that comes while it is being started leaves it to its socket's end
    while Path(f"/proc/{provider}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{provider}").exists()
