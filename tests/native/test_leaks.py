"""Every native call a hundred times: no descriptor, mapping, child or memory may be left over.

What a scenario covers is not declared but observed, by a profiler: the last test names every function of
zcopy/native and of native/zc.cdef that no scenario has run.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import pkgutil
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import zcopy.native
from zcopy.errors import MeasurementError, RefusedError, SkippedError
from zcopy.native import (
    _zc,
    build,
    calls,
    cells,
    channel,
    device,
    fds,
    fill,
    flush,
    listener,
    process,
    provider,
    region,
    rows,
    wire,
)
from zcopy.native.calls import NativeError
from zcopy.native.state import State
from zcopy.units import MIB

ffi, lib = _zc.ffi, _zc.lib
PACKAGE = Path(zcopy.native.__file__).parent
CDEF = Path(__file__).parents[2] / "native/zc.cdef"
CALLS = 100
# What C's and Python's allocators may keep of memory that was freed. Each scenario that could leak memory
# handles more than a hundredth of it.
KEPT = 24 * MIB

POOL = int(Path("/proc/sys/vm/nr_hugepages").read_text())

SCENARIOS: dict[str, Callable[[], None]] = {}


def scenario(run: Callable[[], None]) -> Callable[[], None]:
    SCENARIOS[run.__name__] = run
    return run


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """A call that must fail."""
    with pytest.raises((NativeError, MeasurementError, RefusedError)):
        yield


def memfd_region(size: int) -> region.Region:
    return region.Region.owning(fds.memfd("leak", size), size)


@scenario
def a_region_from_its_start_to_its_end() -> None:
    with memfd_region(4 * MIB) as one:
        one.advise_huge()
        one.populate()
        with contextlib.suppress(NativeError):  # a kernel without huge pages
            one.collapse()
        with one.access(write=True) as view:
            view[0] = one.export().size & 1
        assert not one.closed
        assert one.address
        assert not (one.synced or one.ranged)
        assert one.fd >= 0
        assert one.pointer
    one.close()


@scenario
def access_to_what_is_no_dmabuf() -> None:
    with region.Region(fds.memfd("leak", 4096), 4096, dmabuf=True) as one:
        for write in (False, True):
            assert one.wait(write=write, timeout_ms=0) >= 0  # a file is always ready
        for step in (one.begin, one.end):
            with refused():
                step()


@scenario
def memory_of_the_hugetlb_pool() -> None:
    with refused() if not POOL else contextlib.nullcontext():
        region.Region(-1, 2 * MIB, hugetlb=True).close()


@scenario
def caches_written_back() -> None:
    with region.Region(-1, MIB) as one:
        for how in flush.flushers():
            assert flush.flush(one, fill.Span(64, MIB - 64), how) > 0
    assert flush.cache_line() > 0


@scenario
def views_that_outlive_their_region() -> None:
    one = memfd_region(4 * MIB)
    view = one.view()
    one.close()
    view[0] = 1


@scenario
def regions_that_are_dropped() -> None:
    memfd_region(4 * MIB).view()[0] = 1
    region.Region(-1, 4 * MIB).view()[0] = 1


@scenario
def descriptors_that_cannot_be_mapped() -> None:
    fd = os.open("/dev/null", os.O_RDONLY)
    with refused():
        region.Region(fd, 4 * MIB)
    os.close(fd)
    with refused():
        region.Region(-1, 1 << 60)
    with refused():
        memfd_region(1 << 60)


@scenario
def mappings_by_hand() -> None:
    raw, stat = ffi.new("zc_mapping *"), ffi.new("zc_stat *")
    fd = lib.zc_memfd_new(b"leak", 4 * MIB, lib.ZC_MEMFD_PLAIN)
    assert lib.zc_sys_fstat(fd, stat) == 0
    assert lib.zc_check_foreign(fd, 4 * MIB, lib.ZC_CHECK_SEALED) == 0
    assert lib.zc_check_foreign(fd, 4 * MIB, lib.ZC_CHECK_DMABUF) < 0
    assert lib.zc_map(fd, 4 * MIB, raw) == 0
    assert lib.zc_populate(raw) == 0
    lib.zc_unmap(raw)
    lib.zc_unmap(raw)
    assert lib.zc_memfd_new(b"leak", 1 << 63, lib.ZC_MEMFD_PLAIN) < 0


@scenario
def descriptors_of_every_kind() -> None:
    fd = fds.memfd("leak", 4096)
    assert fds.seals(fd)
    assert fds.filesystem_type(fd)
    for call in (
        lambda: fds.udmabuf(fd, fd, 4096),
        lambda: fds.dma_heap(fd, 4096),
        lambda: fds.drm_dumb(fd, 4096),
        lambda: fds.drm_driver(fd),
        lambda: fds.drm_owns(fd, fd),
        lambda: fds.memfd("leak", 1 << 63),
        lambda: fds.memfd("leak", 12345, huge=True),  # not whole huge pages, where there are any
    ):
        with refused():
            call()
    os.close(fd)


@scenario
def buffers_of_accelerators() -> None:
    """There is none here: calls that are refused, and a memfd in a buffer's place."""
    fd = fds.memfd("leak", 4096)
    for call in (
        lambda: device.rknpu(fd, 4096, 0x403),
        lambda: device.amdxdna(fd, 4096),
        lambda: device.amdgpu(fd, 4096, 2, 1),
        lambda: device.rocket(fd, 4096),
        lambda: device.rknpu_version(fd),
        lambda: device.rknpu_free_sram(fd),
        lambda: device.owns(fd, fd),
    ):
        with refused():
            call()
    for sync in (device.RknpuSync, device.AmdxdnaSync, device.RocketSync):
        bo = device.Bo(fd, ffi.new("zc_bo *", {"size": 4096, "handle": 7, "fd": os.dup(fd)}))
        assert not bo.sram
        with device.mapped(bo, sync) as one:
            assert one.ranged == sync.ranged
            with refused():
                one.begin()
    plain = device.Bo(fd, ffi.new("zc_bo *", {"size": 4096, "handle": 7, "fd": os.dup(fd)}))
    device.mapped(plain, None).close()
    with refused():
        device.mapped(
            device.Bo(fd, ffi.new("zc_bo *", {"size": 1 << 60, "fd": os.dup(fd)})), device.RknpuSync
        )
    with refused():  # a node that cannot be kept
        device.mapped(device.Bo(-1, ffi.new("zc_bo *", {"size": 4096, "fd": os.dup(fd)})), device.RknpuSync)
    os.close(fd)


@scenario
def faults_in_words() -> None:
    try:
        fds.seals(-1)
    except NativeError as error:
        assert error.name == "EBADF"
        assert calls.sentence("it", error)
        assert calls.failed("it", error).message == calls.refused("it", error).message


@scenario
def a_cell_table() -> None:
    table = cells.CellTable(1 << 14)
    table.reserve(0, 1 << 14)
    table.adopt(cells.Adoption(rows.positions(1000), [0, 255], first=5))
    table.adopt(cells.Adoption(range(3), [1], cells=[1, 2000, 3000]))
    with refused():
        table.adopt(cells.Adoption(range(3), [1], cells=[1, 2000, 3000]))
    assert table.clash == 1
    table.audit()
    assert (table.used, table.head) == (1003, 3001)
    assert table.has(1, 1)
    assert (table.pos(1), table.shift(1)) == (0, 0)
    assert len(table.pairs(255)) == 1000
    assert table.remove(1) == 3
    with refused():
        cells.CellTable(0)


@scenario
def cells_by_hand() -> None:
    out, took = ffi.new("zc_cells **"), ffi.new("uint64_t *")
    assert lib.zc_cells_new(1 << 14, out) == 0
    adoption = cells.Adoption(range(4), [0])
    assert lib.zc_cells_adopt(out[0], adoption.raw) == 0
    assert lib.zc_timed_adopt(out[0], adoption.raw, took) < 0
    assert lib.zc_cells_size(out[0]) == 1 << 14
    lib.zc_cells_free(out[0])


def layouts(n: int = 64) -> tuple[rows.Layout, rows.Layout]:
    """A scattered target and its packed source."""
    row = 4096
    target = rows.Layout(
        [rows.Tensor(0, row, 0, row, 0, 0, rows.K)], 2 * n, 2 * n * row, [(0, n // 2), (n, n // 2)]
    )
    return target, rows.Layout(target.tensors, n, n * row, [(0, n)])


@scenario
def rows_of_every_kernel() -> None:
    target, packed = layouts()
    assert packed.tokens == target.tokens == packed.n_cells
    with memfd_region(target.region_bytes) as to, region.Region(-1, packed.region_bytes) as source:
        rows.write_rows(source, packed, 1)
        assert lib.zc_row_base(1, 0, rows.K, 0)
        assert rows.copy_rows(to, target, source, packed) == packed.payload
        lib.zc_rows_preread(to.pointer, target.raw)
        for name in rows.kernel_names():
            kernel = rows.best_kernel(name)
            rows.fill_guard(to, target, 3, kernel)
            assert rows.check_rows(to, target, 1, kernel) is None
            assert rows.check_guard(to, target, 3, kernel=kernel) is None
            assert "wrong row" in str(rows.check_rows(to, target, 2, kernel))
    with memfd_region(target.region_bytes) as to:
        assert rows.check_guard(to, target, 0, holes=True) is None
    with refused():
        rows.Layout(target.tensors, 1, 1, [])


@scenario
def a_state_file() -> None:
    target, packed = layouts()
    state = State((1, 1))
    pos = rows.positions(packed.tokens)
    with memfd_region(target.region_bytes) as to, memfd_region(packed.state_bytes) as file:
        saved = state.save(file.fd, to, packed)
        assert saved == packed.state_bytes
        path = f"/proc/self/fd/{file.fd}"
        assert state.load(path, to, target, pos)[0] == saved
        for path_, state_ in ((path, State((8, 8))), ("/nonexistent", state)):
            with refused():
                state_.load(path_, to, target, pos)


@scenario
def rows_from_a_pipe() -> None:
    target, packed = layouts(8)
    read, write = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.set_blocking(read, False)
    with ours, theirs, region.Region(-1, target.region_bytes) as to:
        os.write(write, bytes(packed.payload))
        assert rows.receive_rows(read, ours.fileno(), 1000, to, target) == packed.payload
        with refused():
            rows.receive_rows(read, ours.fileno(), 0, to, target)
    os.close(read)
    os.close(write)


@contextlib.contextmanager
def peers() -> Iterator[tuple[channel.Channel, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    lib.zc_socket_credentials(ours.fileno())
    one = channel.Channel(ours.detach(), "the peer", 10**7, time.monotonic_ns)
    with contextlib.closing(one), theirs:
        yield one, theirs


def with_descriptors(message: bytes, count: int) -> tuple[list[bytes], list[tuple[int, int, bytes]]]:
    return [message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, (0).to_bytes(4, "little") * count)]


@scenario
def answers_with_descriptors_that_nobody_asked_for() -> None:
    answer = wire.message(wire.Type.DROPPED, 1, wire.SLOT.pack(0, 0))
    for sent in (
        answer,
        answer[:-1],
        b"x",
        wire.message(wire.Type.REFUSE, 1, wire.REFUSE.pack(-1, 0, b"no")),
    ):
        for count in (1, 2, 8, 200):
            with peers() as (one, peer):
                peer.sendmsg(*with_descriptors(sent, count))
                request = one.send(wire.Type.DROP, wire.SLOT.pack(0, 0))
                with contextlib.suppress(channel.PeerError):
                    one.answer(request, wire.Type.DROPPED, wire.SLOT.size)


@scenario
def messages_with_a_descriptor() -> None:
    received = ffi.new("zc_received *")
    room = ffi.new("char[]", 16)
    with peers() as (one, peer):
        for fd in (0, -1):
            assert lib.zc_send(one.fd, b"x", 1, fd) == 0
            assert lib.zc_receive(peer.fileno(), room, 16, 0, received) == 0
            if received.fd >= 0:
                os.close(received.fd)
        assert lib.zc_receive(peer.fileno(), room, 16, 0, received) < 0


@scenario
def greetings() -> None:
    with peers() as (one, peer):
        peer.send(wire.message(wire.Type.HELLO, 1, wire.HELLO.pack(2, 1, 0, 0, b"me")))
        assert one.hello().name == "me"
    with peers() as (one, peer):
        peer.close()
        with refused():
            one.hello()


HELPER = provider.helper("zcopy-provider")


def start(*command: str, inherit: tuple[int, ...] = ()) -> provider.Provider:
    return provider.Provider.started(
        command or (str(HELPER),),
        deadline_ns=10 * 10**9,
        ticks=time.monotonic_ns,
        environ=dict(os.environ),
        inherit=inherit,
    )


@scenario
def memory_filled_by_everything_there_is() -> None:
    with memfd_region(MIB) as to, region.Region(-1, MIB) as source:
        for mover in fill.movers():
            assert fill.find_mover(mover.method, mover.isa) == mover
            assert hash(mover) == hash(mover.name)
            for threads, cpus in ((1, ()), (3, ()), (1, (min(os.sched_getaffinity(0)),))):
                assert fill.fill(to, source, fill.Span(0, MIB), mover, fill.Team(threads, cpus)) > 0
        with pytest.raises(NativeError):
            fill.fill(to, source, fill.Span(0, MIB), mover, fill.Team(2, (0, 1023)))
        with pytest.raises(ValueError, match="no way to fill"):
            fill.find_mover("by hand")
        assert fill.touch(to, MIB)[0] > 0
        assert fill.read_through(to, MIB) > 0


@scenario
def a_provider_from_its_start_to_its_end() -> None:
    target, _ = layouts()
    table, adoption = cells.CellTable(target.n_cells), cells.Adoption(range(target.tokens), [0])
    with memfd_region(target.region_bytes) as one, start(inherit=(one.fd,)) as it:
        assert it.pid
        it.tensors(wire.Slot.REGION, target, (1, 1))
        for inherited in (True, False):
            _, mapped = it.map(wire.Slot.REGION, one.export(), inherited=inherited)
            assert mapped.ino == os.fstat(one.fd).st_ino
        number = it.begin(provider.Request(wire.Op.WRITE, 5))
        assert it.take_over(number, table, adoption).done.ns >= 0
        assert rows.check_rows(one, target, 5) is None
        it.drop(wire.Slot.REGION)


@scenario
def a_provider_that_comes_by_itself() -> None:
    place = Path(tempfile.gettempdir()) / f"zcopy-leaks-{os.getpid()}.sock"
    with listener.Listener(place) as here:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
            end.connect(str(place))
            environ = {**os.environ, provider.SOCKET_VARIABLE: str(end.fileno())}
            own = process.Process("it", (str(HELPER),), environ, (end.fileno(),))
        with provider.Provider.met(here, deadline_ns=10**10, ticks=time.monotonic_ns) as it:
            assert it.pid == own.pid
        assert own.wait() == 0
        with refused():
            here.accept(10**6, time.monotonic_ns)
        with refused():
            listener.Listener(place)
    with refused():
        provider.serve(place, (str(HELPER),), os.environ)


@scenario
def a_decoder_that_listens_and_goes() -> None:
    """By an alarm's handler and no thread, whose first malloc would leave an arena behind."""
    place = Path(tempfile.gettempdir()) / f"zcopy-leaks-{os.getpid()}.sock"
    with listener.Listener(place) as here:
        before = signal.signal(signal.SIGALRM, lambda *_: here.close())
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        try:
            assert provider.serve(place, (str(HELPER),), os.environ) == 0
        finally:
            signal.signal(signal.SIGALRM, before)


@scenario
def a_provider_that_streams() -> None:
    _, packed = layouts(8)
    read, write = os.pipe()
    with memfd_region(packed.region_bytes) as one, start() as it:
        it.tensors(wire.Slot.SOURCE, packed, (1, 1))
        it.map(wire.Slot.SOURCE, one.export())
        it.pipe(write)
        number = it.begin(provider.Request(wire.Op.STREAM, 5, slot=wire.Slot.SOURCE))
        assert it.finish(number).bytes == packed.payload
        with refused():
            it.finish(it.begin(provider.Request(wire.Op.SAVE, 5, slot=wire.Slot.SOURCE, path="/nowhere/x")))
    os.close(read)
    os.close(write)


@scenario
def providers_that_do_not_serve() -> None:
    for command in (("/nonexistent/provider",), ("/bin/true",)):
        with pytest.raises(MeasurementError):
            start(*command)
    with pytest.raises(SkippedError):
        provider.helper("zcopy-nothing")


@scenario
def a_provider_that_is_killed() -> None:
    it = start()
    os.kill(it.pid, 9)
    with refused():
        it.drop(wire.Slot.REGION)
    it.close()


@scenario
def the_build() -> None:
    assert len(build.build_id()) == 12


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_hundred_calls_leave_nothing_behind(name: str, held: Callable[[], Any]) -> None:
    for _ in range(3):
        SCENARIOS[name]()
    before = held()
    for _ in range(CALLS):
        SCENARIOS[name]()
    after = held()
    assert after.fds == before.fds
    assert after.mappings == before.mappings
    assert after.reserved <= before.reserved
    assert after.children == before.children
    assert after.private <= before.private + KEPT


def declared() -> set[str]:
    """Every function of native/zc.cdef."""
    text = re.sub(r"/\*.*?\*/", "", CDEF.read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(zc_\w+)\s*\(", text))


def public() -> dict[CodeType, str]:
    """Every public function and method of zcopy/native, and what makes and ends an object, by its code."""
    found: dict[CodeType, str] = {}
    for info in pkgutil.iter_modules([str(PACKAGE)]):
        module = importlib.import_module(f"{zcopy.native.__name__}.{info.name}")
        for name, value in vars(module).items():
            members = vars(value) if inspect.isclass(value) else {name: value}
            for each, member in members.items():
                if (
                    (code := code_of(member))
                    and code.co_filename == module.__file__
                    and is_public(each, name)
                ):
                    found[code] = f"{info.name}.{code.co_qualname}"
    return found


def is_public(name: str, owner: str) -> bool:
    return not owner.startswith("_") and (
        not name.startswith("_") or name in ("__init__", "__enter__", "__exit__", "__str__")
    )


def code_of(member: object) -> CodeType | None:
    if getattr(member, "__isabstractmethod__", False):  # nobody can call it
        return None
    member = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
    return getattr(inspect.unwrap(member), "__code__", None) if callable(member) else None


def observed(run: Callable[[], None]) -> tuple[set[str], set[CodeType]]:
    """The native functions and the Python code that a scenario runs."""
    native: set[str] = set()
    python: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            python.add(frame.f_code)
        elif event == "c_call" and getattr(lib, name := argument.__name__, None) is argument:
            native.add(name)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return native, python


def test_every_native_call_has_a_leak_test() -> None:
    seen = [observed(run) for run in SCENARIOS.values()]
    native = set().union(*(each for each, _ in seen))
    python = set().union(*(each for _, each in seen))
    lacking = sorted(declared() - native) + sorted(
        name for code, name in public().items() if code not in python
    )
    assert lacking == []


def test_the_observation_sees_what_is_there() -> None:
    """The check itself: it knows the declarations, and what a scenario does not run is missing."""
    assert {"zc_map", "zc_cells_adopt", "zc_kernel_find", "zc_take_over"} <= declared()
    assert {"region.Region.close", "cells.CellTable.used", "fds.memfd", "provider.Provider.map"} <= set(
        public().values()
    )
    native, python = observed(a_state_file)
    assert "zc_state_save" in native
    assert "zc_cells_new" not in native
    assert {"state.State.load"} <= {name for code, name in public().items() if code in python}
