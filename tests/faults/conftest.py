"""Both sides of the handoff made by hand: a probe run with any provider, and a decoder that says what a test wants."""

from __future__ import annotations

import array
import errno
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import SkippedError
from zcopy.host import Host
from zcopy.model import Row, Warning_
from zcopy.native import fds, wire
from zcopy.native.provider import helper
from zcopy.native.region import Region
from zcopy.native.rows import K, Layout, Tensor, V, check_guard, check_rows
from zcopy.probes.base import Context
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.probes.handoff.probe import HandoffProbe

PEER = Path(__file__).parent / "peers" / "misbehaving.py"
EXAMPLE = Path(__file__).parents[2] / "docs" / "provider_example.py"
SCM_CREDENTIALS = 2
SO_PASSCRED = 16
PATIENCE_S = 20.0


@pytest.fixture
def peer() -> Callable[..., tuple[str, ...]]:
    """The command of a provider that misbehaves in a mode; with `once` only the first one that is started."""

    def command(mode: str, once: Path | None = None) -> tuple[str, ...]:
        own = (sys.executable, "-S", str(PEER), mode)
        return (*own, "--once", str(once), str(helper("zcopy-provider"))) if once else own

    return command


@pytest.fixture
def example() -> tuple[str, ...]:
    """The command of the plain Python provider in docs/."""
    return (sys.executable, "-S", str(EXAMPLE))


@pytest.fixture
def measure(tmp_path: Path) -> Callable[..., list[Row]]:
    """Runs the probe on 16 cells of the tiny geometry with this provider; its rows.

    The state folder must be empty afterwards.
    """

    def run(
        command: Sequence[str],
        routes: Sequence[str] = ("shared", "copy"),
        deadline_ns: int = 20 * 10**9,
        progress: Callable[[str, int, int], None] = lambda *_: None,
        **more: Any,
    ) -> list[Row]:
        states = tmp_path / "states"
        params = HandoffParams(
            **{
                "cache": Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"]),
                "lengths": (Length(16, 64),),
                "routes": tuple(routes),
                "regions": ("reused",),
                "reps": 2,
                "state_dirs": (str(states),),
                "provider_cmd": tuple(command),
                "deadline_ns": deadline_ns,
                **more,
            }
        )
        warnings: list[Warning_] = []
        context = Context(Host.read(), time.monotonic_ns, progress, warnings.append, os.environ)
        rows = list(HandoffProbe(params).measure(context))
        assert not states.exists() or not list(states.iterdir())
        return rows

    return run


class Talk:
    """A raw decoder in front of a real provider process: it can say anything."""

    CELLS = 16

    def __init__(self, build: str, folder: Path) -> None:
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self.ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, SO_PASSCRED, 1)
        self.ours.settimeout(PATIENCE_S)
        self.log = folder / "stderr"
        with self.log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [helper(build)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={
                    wire_socket: str(theirs.fileno()),
                    "ASAN_OPTIONS": "halt_on_error=0:detect_leaks=0:allocator_may_return_null=1",
                },
                pass_fds=[theirs.fileno()],
                cwd=folder,
            )
        theirs.close()
        self.folder = folder
        self.request = 0

    @property
    def asan_faults(self) -> list[str]:
        """What AddressSanitizer has said, but for the bytes that `inject` writes on purpose."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "ERROR: Addr" in line and "use-after-poison" not in line]

    def send(self, kind: int, body: bytes = b"", descriptors: Sequence[int] = ()) -> int:
        """A well-formed message; its request number."""
        self.request += 1
        self.raw(wire.message(wire.Type(kind), self.request, body), descriptors)
        return self.request

    def raw(self, data: bytes, descriptors: Sequence[int] = (), extra: Sequence[Any] = ()) -> None:
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        self.ours.sendmsg([data], [*rights, *extra])

    def receive(self) -> tuple[int, int, bytes]:
        """The next message: kind, request, body."""
        data = self.ours.recv(wire.MOST)
        assert data, f"the provider is gone: {self.process.wait(PATIENCE_S)}"
        magic, version, kind, size, request = wire.HEAD.unpack_from(data)
        assert (magic, version, size) == (wire.MAGIC, wire.VERSION, len(data))
        return kind, request, data[wire.HEAD.size :]

    def expect(self, kind: wire.Type) -> bytes:
        """The body of the answer to the last message."""
        got, request, body = self.receive()
        said = wire.REFUSE.unpack(body)[2].rstrip(b"\0") if got == wire.Type.REFUSE else b""
        assert (got, request) == (kind, self.request), said
        return body

    def refusal(self, code: int | None = None, request: int | None = None) -> str:
        """The sentence of the refusal of the last message (or of `request`)."""
        kind, answered, body = self.receive()
        assert (kind, answered) == (wire.Type.REFUSE, self.request if request is None else request)
        why, _, text = wire.REFUSE.unpack(body)
        assert why < 0
        assert code is None or -why == code, (errno.errorcode.get(-why), text)
        assert text[-1:] == b"\0"
        sentence = text.split(b"\0")[0].decode()
        assert sentence.isprintable()
        return sentence

    def silent(self) -> None:
        """Nothing is waiting: what was sent has been read and has no answer."""
        self.hello()

    def hello(self) -> None:
        self.send(wire.Type.HELLO, wire.HELLO.pack(1, os.getpid(), 0, 0, b"test"))
        assert wire.Hello.parse(self.expect(wire.Type.HELLO)).role == 2

    # A sound layout, and every message of a sound exchange with it.

    def tensors(self) -> list[Tensor]:
        """Two layers of rows of 64 bytes, back to back."""
        size = 64 * self.CELLS
        return [Tensor(i * size, 64, 0, 64, 0, i // 2, (K, V)[i % 2]) for i in range(4)]

    def layout(self) -> Layout:
        return Layout(self.tensors(), self.CELLS, 4096, [(0, 8)])

    def tensors_body(self, slot: int = 0, tensors: Sequence[Tensor] | None = None, **head: int) -> bytes:
        tensors = self.tensors() if tensors is None else tensors
        count, cells = head.get("count", len(tensors)), head.get("cells", self.CELLS)
        packed = wire.TENSORS.pack(slot, count, cells, 1, 1, 0, head.get("region_bytes", 4096))
        return packed + b"".join(
            struct.pack("<QQQIIII", t.offset, t.cell_stride, t.channel_stride, t.row_bytes, t.element_bytes,
                        t.layer, t.role)
            for t in tensors
        )  # fmt: skip

    def runs_body(
        self, runs: Sequence[tuple[int, int]], slot: int = 0, offset: int = 0, total: int = -1
    ) -> bytes:
        head = wire.RUNS.pack(slot, offset, len(runs), len(runs) + offset if total < 0 else total)
        return head + b"".join(struct.pack("<II", *run) for run in runs)

    def region_body(
        self, slot: int = 0, way: int = 0, fd: int = -1, flags: int = 1, size: int = 4096
    ) -> bytes:
        return wire.REGION.pack(slot, way, fd, flags, size, 0)

    def begin_body(
        self, op: int = 1, slot: int = 0, inject: int = 0, flags: int = 0, nonce: int = 7
    ) -> bytes:
        return wire.BEGIN.pack(op, slot, inject, flags, nonce, 0, 0, 1, 1, 0, 0)

    def ready(self, slot: int = 0) -> Region:
        """Describes and maps a new region as `slot`; it is the caller's to close."""
        region = Region(fds.memfd("zcopy-talk", 4096), 4096)
        self.send(wire.Type.TENSORS, self.tensors_body(slot))
        self.send(wire.Type.RUNS, self.runs_body([(0, 8)], slot))
        self.send(wire.Type.REGION, self.region_body(slot), [region.fd])
        self.expect(wire.Type.MAPPED)
        return region

    def usable(self) -> None:
        """A whole sound exchange still works, and writes what it should and nothing else."""
        with self.ready() as region:
            self.send(wire.Type.BEGIN, self.begin_body())
            self.expect(wire.Type.DONE)
            assert check_rows(region, self.layout(), 7) is None
            assert check_guard(region, self.layout(), 0) is None
            self.send(wire.Type.DROP, wire.SLOT.pack(0, 0))
            self.expect(wire.Type.DROPPED)

    def maps(self) -> str:
        """The memfds that the provider maps."""
        lines = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        return "\n".join(line for line in lines if "memfd:" in line)

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> int:
        """Closes the socket; the exit code of the provider, which must come by itself."""
        self.ours.close()
        return self.process.wait(PATIENCE_S)

    def clean_up(self) -> None:
        self.ours.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


wire_socket = "ZCOPY_HANDOFF_FD"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Talk]]:
    """A new conversation with this build of the provider ("plain" or "asan"), in a folder of its own."""
    with ExitStack() as cleanup:
        seed = random.Random(1)

        def one(build: str) -> Talk:
            name = "zcopy-provider-asan" if build == "asan" else "zcopy-provider"
            folder = tmp_path / f"talk-{seed.getrandbits(40):010x}"
            folder.mkdir()
            try:
                talk = Talk(name, folder)
            except SkippedError as reason:
                pytest.skip(str(reason))
            cleanup.callback(talk.clean_up)
            return talk

        yield one


@pytest.fixture(params=["plain", "asan"])
def talk(request: pytest.FixtureRequest, start: Callable[[str], Talk]) -> Iterator[Talk]:
    """A conversation that must end well: the provider leaves by itself when the socket closes, and without a report."""
    talk = start(request.param)
    yield talk
    assert talk.end() in (0, 1)
    assert talk.asan_faults == []
