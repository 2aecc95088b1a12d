"""What the tests of the kernel guest share: the command line, every kind of memory, and that nothing stays behind."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_BUFINFO = Path("/sys/kernel/debug/dma_buf/bufinfo")
_POOL = Path("/proc/sys/vm/nr_hugepages")
_TRACING = Path("/sys/kernel/tracing")
# The entry points of system calls, with pt_regs as their argument: what stands in rdi, rsi, and where rdx points to.
_PROBES = {
    "ioctl": "__x64_sys_ioctl fd=+112($arg1):u32 command=+104($arg1):x32 word=+u0(+96($arg1)):x64",
    "readv": "__x64_sys_readv fd=+112($arg1):u32",
}
_EVENT = re.compile(
    r"-(?P<pid>\d+) +\[.*?: (?P<call>\w+): \(.*?\) fd=(?P<fd>\d+)"
    r"(?: command=0x(?P<command>\w+) word=(?:0x)?(?P<word>\w+|\(fault\)))?"
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Called:
    """What a call of zcopy came to."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows


@dataclass(frozen=True)
class SystemCall:
    """A system call as the kernel saw it begin; of an ioctl also the first 64 bits of its argument."""

    pid: int
    call: str
    fd: int
    command: int = 0
    word: int = 0


class SystemCalls:
    """Follows this process, and all that it starts from then on, in a trace buffer of its own."""

    def __init__(self, commands: tuple[int, ...]) -> None:
        self._here = _TRACING / "instances/zcopy-test"
        for call, probe in _PROBES.items():
            _append(_TRACING / "kprobe_events", f"p:zcopy/{call} {probe}")
        self._here.mkdir()
        wanted = "||".join(f"command=={command:#x}" for command in commands)
        self._write("events/zcopy/ioctl/filter", wanted)
        self._write("options/event-fork", "1")
        self._write("set_event_pid", str(os.getpid()))

    def _write(self, path: str, text: str) -> None:
        (self._here / path).write_text(text)

    @contextmanager
    def during(self) -> Iterator[list[SystemCall]]:
        """Fills the list at the end of the block."""
        calls: list[SystemCall] = []
        self._write("trace", "")
        self._write("events/zcopy/enable", "1")
        try:
            yield calls
        finally:
            self._write("events/zcopy/enable", "0")
            found = _EVENT.finditer((self._here / "trace").read_text())
            calls.extend(
                SystemCall(int(m["pid"]), m["call"], int(m["fd"]), _hex(m["command"]), _hex(m["word"]))
                for m in found
            )

    def close(self) -> None:
        self._here.rmdir()
        for call in _PROBES:
            _append(_TRACING / "kprobe_events", f"-:zcopy/{call}")


def _hex(text: str | None) -> int:
    return int(text, 16) if text and text != "(fault)" else 0


def _append(path: Path, line: str) -> None:
    """As `>>` does it: Python's append mode asks for the position, which tracefs refuses."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


@pytest.fixture
def system_calls() -> Iterator[Callable[..., SystemCalls]]:
    """Traces readv(2), and ioctl(2) with the given commands."""
    with ExitStack() as owned:

        def trace(*commands: int) -> SystemCalls:
            calls = SystemCalls(commands)
            owned.callback(calls.close)
            return calls

        yield trace


def _dma_bufs() -> int:
    found = re.search(r"^Total (\d+) objects", _BUFINFO.read_text(), re.MULTILINE)
    assert found, "the kernel's list of dma-bufs has no total"
    return int(found[1])


@pytest.fixture
def dma_bufs() -> Callable[[], int]:
    """Asks the kernel how many dma-bufs there are on the box."""
    return _dma_bufs


def _held() -> tuple[Counter[str], Counter[str], str]:
    """Descriptors by target, shared mappings by name, children: as `held` in tests/conftest.py, but in a few reads."""
    gc.collect()
    fds: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):  # the listing's own
            fds[os.readlink(f"/proc/self/fd/{fd}")] += 1  # noqa: PTH115
    lines = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    mappings = Counter(" ".join(line[5:]) for line in lines if line[1].endswith("s"))
    return fds, mappings, Path("/proc/thread-self/children").read_text()


@pytest.fixture(autouse=True)
def guest_is_left_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a descriptor, a mapping, a child or, anywhere on the box, a dma-buf."""
    if request.node.get_closest_marker("kernel") is None:
        yield
        return
    gc.freeze()  # what there is already is not looked at again in each collection, which is slow here
    before = _held(), _dma_bufs()
    yield
    assert (_held(), _dma_bufs()) == before


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Settings, locks, state files and history of a test stay in its own folder."""
    for name in [name for name in os.environ if name.startswith(("XDG_", "ZCOPY_"))]:
        if name != "ZCOPY_GUEST_OUT":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ZCOPY_LOCK_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def zcopy(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    own_home: Path,  # noqa: ARG001 - where it looks for its settings
) -> Iterator[Callable[..., Called]]:
    """The command line, called in this process: starting Python takes seconds here, and what a call leaves is seen."""
    from zcopy.cli.main import run

    handlers = {number: signal.getsignal(number) for number in _SIGNALS}

    def call(*words: str) -> Called:
        monkeypatch.setattr(sys, "argv", ["zcopy", *words])
        monkeypatch.setattr(sys, "stdout", sys.stdout)  # a call replaces it: undone after the test
        capfd.readouterr()
        code = run()
        sys.stdout.flush()
        return Called(code, *capfd.readouterr())

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def process(own_home: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts zcopy as a process of its own, by way of `before` (words of another program that starts it)."""

    def start(*words: str, before: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[str]:
        # Elsewhere than in the checkout, whose zcopy folder would hide the installed package.
        call = [*before, sys.executable, "-m", "zcopy", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(call, cwd=own_home, stdout=pipe, stderr=pipe, text=True, **more)

    return start


@pytest.fixture(scope="session")
def huge_pages() -> Iterator[None]:
    """A pool of sixteen 2 MiB pages."""
    before = _POOL.read_text()
    _POOL.write_text("16")
    assert _POOL.read_text().strip() == "16"
    yield
    _POOL.write_text(before)


@pytest.fixture(scope="session")
def kinds(huge_pages: None) -> dict[str, Any]:  # noqa: ARG001 - one kind is made of them
    """Every kind of memory by name but those of accelerators; all of them are to be had here."""
    from zcopy.buffers.device import DeviceBuffer
    from zcopy.buffers.registry import kinds
    from zcopy.host import Host

    return {kind.name: kind for kind in kinds(Host.read()) if not isinstance(kind, DeviceBuffer)}


@pytest.fixture
def cards() -> dict[str, str]:
    """The DRM driver of each card, as the kernel's debugfs has it."""
    found = {}
    for card in sorted(Path("/sys/class/drm").glob("card?")):
        name = Path("/sys/kernel/debug/dri", card.name.removeprefix("card"), "name")
        found[card.name] = name.read_text().split()[0]
    return found


@pytest.fixture
def sixty_four_cells() -> Any:
    """Parameters of a handoff of all 64 cells of the preset tiny: 128 KiB."""
    from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
    from zcopy.probes.handoff.params import HandoffParams, Length

    cache = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])
    return HandoffParams(cache, (Length(64, 64),), reps=1)
