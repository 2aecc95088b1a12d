"""Region: one owner of a mapping and its descriptor, whose views can never dangle."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.native import _zc, fds
from zcopy.native.calls import NativeError
from zcopy.native.maintenance import Maintenance
from zcopy.native.region import Region
from zcopy.units import MIB

lib = _zc.lib
SIZE = 64 * 1024


def mapped(address: int) -> str | None:
    """The permissions of the mapping at an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, end = (int(each, 16) for each in line.split()[0].split("-"))
        if first <= address < end:
            return line.split()[1]
    return None


def test_a_region_is_zeroed_shared_memory(region: Callable[[int], Region]) -> None:
    one = region(SIZE)
    assert bytes(one.view()) == bytes(SIZE)
    assert mapped(one.address) == "rw-s"
    one.view()[7:10] = b"abc"
    assert os.pread(one.fd, 3, 7) == b"abc"


def test_anonymous_memory_has_no_descriptor() -> None:
    with Region(-1, SIZE) as anonymous:
        assert anonymous.fd == -1
        anonymous.view()[:] = b"z" * SIZE
        assert mapped(anonymous.address) == "rw-p"  # private, as malloc's


def test_closing_gives_mapping_and_descriptor_back(region: Callable[[int], Region]) -> None:
    one = region(SIZE)
    address, fd = one.address, one.fd
    one.close()
    assert one.closed
    assert mapped(address) is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_closing_twice_closes_once(region: Callable[[int], Region]) -> None:
    one = region(SIZE)
    fd = one.fd
    one.close()
    reused = os.open("/dev/null", os.O_RDONLY)
    assert reused == fd  # what a second close of the number would hit
    one.close()
    os.close(reused)


def test_a_view_keeps_the_memory_mapped_after_close(region: Callable[[int], Region]) -> None:
    one = region(SIZE)
    view = one.view()
    view[:4] = b"kept"
    address = one.address
    one.close()
    gc.collect()
    assert bytes(view[:4]) == b"kept"
    part = view[1:3]
    del view
    gc.collect()
    assert bytes(part) == b"ep"
    assert mapped(address) == "rw-s"
    del part
    gc.collect()
    assert mapped(address) is None


def test_a_view_of_the_dropped_region_keeps_it_too() -> None:
    view = Region(-1, SIZE).view()
    gc.collect()
    view[-1] = 1
    assert view[-1] == 1


@pytest.mark.parametrize("use", ["view", "populate", "export", "begin_dmabuf", "fd", "address", "pointer"])
def test_a_closed_region_is_not_usable(use: str) -> None:
    one = Region(-1, SIZE, dmabuf=use == "begin_dmabuf")
    one.close()
    with pytest.raises(ValueError, match="closed"):
        found = getattr(one, use.removesuffix("_dmabuf"))
        found()


def test_the_end_of_a_with_closes(region: Callable[[int], Region]) -> None:
    with region(SIZE) as one:
        pass
    assert one.closed


def test_an_export_is_what_another_process_needs(region: Callable[[int], Region]) -> None:
    export = region(SIZE).export()
    assert (export.size, export.dmabuf) == (SIZE, False)
    with Region(os.dup(export.fd), SIZE) as other:
        other.view()[0] = 9
    assert os.pread(export.fd, 1, 0) == b"\x09"


def test_populating_leaves_no_fault_to_its_owner(region: Callable[[int], Region]) -> None:
    one = region(4 * MIB)
    assert os.fstat(one.fd).st_blocks == 0
    one.populate()
    assert os.fstat(one.fd).st_blocks * 512 == 4 * MIB
    pages = range(0, 4 * MIB, 4096)
    view = one.view()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for at in pages:
        view[at] = 1
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before < len(pages) // 10


def test_from_two_mebibytes_on_a_region_can_be_mapped_huge(region: Callable[[int], Region]) -> None:
    for size in (2 * MIB, 3 * MIB + 4096, 8 * MIB):
        assert region(size).address % (2 * MIB) == 0


def test_the_reserve_for_alignment_is_given_back(region: Callable[[int], Region]) -> None:
    one = region(3 * MIB)
    assert mapped(one.address - 1) != "---p"
    assert mapped(one.address + 3 * MIB) != "---p"


class Syncs:
    """Records what zc_timed_sync is asked, in place of the native library."""

    def __init__(self, refuse: bool = False) -> None:
        self.asked: list[int] = []
        self._refuse = refuse

    def zc_timed_sync(self, _fd: int, flags: int) -> int:
        self.asked.append(flags)
        return -errno.EIO if self._refuse else 7

    def __getattr__(self, name: str) -> object:
        return getattr(lib, name)


READ, WRITE, END = lib.ZC_SYNC_READ, lib.ZC_SYNC_WRITE, lib.ZC_SYNC_END


@pytest.mark.parametrize(("write", "flags"), [(False, READ), (True, READ | WRITE)])
def test_cpu_access_to_a_dmabuf_is_bracketed(
    monkeypatch: pytest.MonkeyPatch, write: bool, flags: int
) -> None:
    syncs = Syncs()
    monkeypatch.setattr("zcopy.native.maintenance.lib", syncs)
    with Region(-1, SIZE, dmabuf=True) as one:
        with pytest.raises(KeyError), one.access(write=write):
            assert syncs.asked == [flags]
            raise KeyError
        assert syncs.asked == [flags, flags | END]


def test_other_memory_needs_no_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = Syncs()
    monkeypatch.setattr("zcopy.native.maintenance.lib", syncs)
    with Region(-1, SIZE) as one, one.access(write=True) as view:
        view[0] = 1
    assert syncs.asked == []


class Told(Maintenance):
    """Maintenance that only takes down what it is told."""

    ranged = True

    def __init__(self) -> None:
        self.calls: list[tuple[bool, bool, bool, int, int]] = []
        self.closed = 0

    def sync(self, *, end: bool, read: bool, write: bool, offset: int, size: int) -> int:
        self.calls.append((end, read, write, offset, size))
        return 7

    def close(self) -> None:
        self.closed += 1


def test_the_maintenance_of_a_device_is_the_regions() -> None:
    told = Told()
    with Region(fds.memfd("zcopy-test", SIZE), SIZE, maintenance=told) as one:
        assert (one.synced, one.ranged, one.dmabuf) == (True, True, False)
        assert one.begin() == one.end(write=True) == 7
        one.sync(end=True, read=False, write=True, offset=4096, size=64)
        assert told.closed == 0
    assert told.closed == 1
    assert told.calls == [
        (False, True, False, 0, SIZE), (True, True, True, 0, SIZE), (True, False, True, 4096, 64),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="closed"):
        one.sync(end=True, read=True, write=True)


@pytest.mark.parametrize(
    "asked, told",
    [
        ((SIZE - 64, 128), (SIZE - 64, 64)),
        ((SIZE, 1), (SIZE, 0)),
        ((2 * SIZE, SIZE), (SIZE, 0)),
        ((-4096, 4096), (0, 4096)),
        ((0, -1), (0, 0)),
        ((1 << 63, 1 << 63), (SIZE, 0)),
        ((64, None), (64, SIZE - 64)),
    ],
)
def test_a_range_never_leaves_the_buffer(asked: tuple[int, int | None], told: tuple[int, int]) -> None:
    """One driver takes the host down for a range beyond its buffer."""
    one = Told()
    with Region(fds.memfd("zcopy-test", SIZE), SIZE, maintenance=one) as region:
        region.sync(end=True, read=True, write=True, offset=asked[0], size=asked[1])
    assert one.calls[0][3:] == told


def test_what_cannot_be_mapped_gives_its_maintenance_back() -> None:
    told = Told()
    with pytest.raises(NativeError):
        Region.owning(fds.memfd("zcopy-test", SIZE), 1 << 60, maintenance=told)
    assert told.closed == 1


def test_a_refused_bracket_is_an_error(region: Callable[[int], Region]) -> None:
    """The kernel's own word: a memfd is no dma-buf."""
    with Region(os.dup(region(SIZE).fd), SIZE, dmabuf=True) as one:
        for step in (one.begin, one.end):
            with pytest.raises(NativeError) as caught:
                step()
            assert caught.value.name == "ENOTTY"


def closed_number() -> int:
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    return fd


@pytest.mark.parametrize(("size", "name"), [(0, "EINVAL"), (1 << 60, "ENOMEM")])
def test_a_senseless_size_is_refused(size: int, name: str) -> None:
    with pytest.raises(NativeError) as caught:
        Region(-1, size)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("open_", "name"),
    [
        (lambda: os.open("/dev/null", os.O_RDONLY), "EACCES"),
        (lambda: socket.socket(socket.AF_UNIX).detach(), "ENODEV"),
    ],
)
def test_what_cannot_be_mapped_stays_the_callers(open_: Callable[[], int], name: str) -> None:
    fd = open_()
    with pytest.raises(NativeError) as caught:
        Region(fd, SIZE)
    assert caught.value.name == name
    os.close(fd)  # still open


def test_a_closed_descriptor_is_refused() -> None:
    with pytest.raises(NativeError) as caught:
        Region(closed_number(), SIZE)
    assert caught.value.name == "EBADF"


def test_a_memfd_is_sealed_sized_and_named() -> None:
    fd = fds.memfd("zcopy-named", 12345)
    try:
        assert os.fstat(fd).st_size == 12345
        assert fds.seals(fd) & (both := fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW) == both
        assert fds.filesystem_type(fd) == fds.TMPFS_MAGIC
        assert "memfd:zcopy-named" in os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        assert not os.get_inheritable(fd)
        for size in (1, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
    finally:
        os.close(fd)


def test_a_label_of_any_length_and_script_is_taken() -> None:
    for label in ("", "ü" * 300, "a/b [c]"):
        os.close(fds.memfd(label, 4096))


@pytest.mark.parametrize(("call", "name"), [(fds.seals, "EINVAL"), (fds.drm_driver, "ENOTTY")])
def test_the_wrong_kind_of_descriptor_is_refused(call: Callable[[int], object], name: str) -> None:
    fd = os.open("/dev/null", os.O_RDWR)
    try:
        with pytest.raises(NativeError) as caught:
            call(fd)
        assert caught.value.name == name
    finally:
        os.close(fd)


def test_device_calls_on_a_memfd_are_refused() -> None:
    fd = fds.memfd("zcopy-test", 4096)
    try:
        for call in (
            lambda: fds.udmabuf(fd, fd, 4096),
            lambda: fds.dma_heap(fd, 4096),
            lambda: fds.drm_dumb(fd, 4096),
            lambda: fds.drm_owns(fd, fd),
        ):
            with pytest.raises(NativeError) as caught:
                call()
            assert caught.value.name == "ENOTTY"
    finally:
        os.close(fd)
