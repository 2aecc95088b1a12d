"""The preloaded library in front of the C library: one allocation is ours, all others are none of its business."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.buffers.memfd import sealed
from zcopy.native.provider import helper
from zcopy.native.region import Region

SIZE = 3 << 20

CHILD = (
    f"SIZE = {SIZE}"
    + """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
def take(size=SIZE, alignment=64):
    at = ctypes.c_void_p()
    assert libc.posix_memalign(ctypes.byref(at), ctypes.c_size_t(alignment), ctypes.c_size_t(size)) == 0
    assert at.value % alignment == 0
    return at.value
def inode(at):
    for line in open("/proc/self/maps"):
        span, _, _, _, node, *_ = line.split()
        low, high = (int(each, 16) for each in span.split("-"))
        if low <= at < high:
            return int(node)
"""
)


@pytest.fixture
def region() -> Any:
    with sealed("zcopy-kv", SIZE) as one:
        yield one


@pytest.fixture
def preloaded(region: Region) -> Callable[..., str]:
    """A child under the library, with the region's descriptor and these variables; what it printed."""

    def run(code: str, *fds: int, **variables: str) -> str:
        own = {
            "LD_PRELOAD": str(helper("zcopy-kv.so")),
            "ZCOPY_KV_FD": str(region.fd),
            "ZCOPY_KV_BYTES": str(SIZE),
        }
        done = subprocess.run(
            [sys.executable, "-S", "-c", CHILD + code], env={**os.environ, **own, **variables},
            pass_fds=[region.fd, *fds], capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    return run


def test_the_exact_size_is_answered_once(preloaded: Callable[..., str], region: Region) -> None:
    found = preloaded("first, second = take(), take(); print(inode(first), inode(second), inode(take(4096)))")
    assert found.split() == [str(os.fstat(region.fd).st_ino), "0", "0"]


def test_an_alignment_beyond_a_mappings_is_the_c_librarys(preloaded: Callable[..., str]) -> None:
    assert preloaded("print(inode(take(alignment=2 << 20)))") == "0"


def test_an_alignment_that_is_none_is_refused_as_ever(preloaded: Callable[..., str]) -> None:
    code = "at = ctypes.c_void_p(); print(libc.posix_memalign(ctypes.byref(at), 24, ctypes.c_size_t(SIZE)))"
    assert preloaded(code) == "22"


def test_what_can_only_be_read_is_not_taken(preloaded: Callable[..., str], region: Region) -> None:
    code = "print(inode(take()))"
    fd = os.open(f"/proc/self/fd/{region.fd}", os.O_RDONLY)
    try:
        assert preloaded(code, fd, ZCOPY_KV_FD=str(fd)) == "0"
    finally:
        os.close(fd)


def test_threads_that_take_and_give_back_do_not_meet(preloaded: Callable[..., str]) -> None:
    code = """
def work():
    for _ in range(300):
        at = take()
        ctypes.memset(at, 1, 64)
        libc.free(at)
        libc.free(take(4096))
all_ = [threading.Thread(target=work) for _ in range(8)]
[each.start() for each in all_]; [each.join() for each in all_]
print(sum("zcopy-kv" in line and " rw-s " in line for line in open("/proc/self/maps")))
"""
    assert preloaded(code) == "0"


def test_what_is_written_there_is_in_the_region(preloaded: Callable[..., str], region: Region) -> None:
    preloaded("ctypes.memset(take(), 7, SIZE)")
    assert set(bytes(region.view()[:4096])) == {7}
    assert set(bytes(region.view()[-4096:])) == {7}


def test_given_back_it_can_be_had_again(preloaded: Callable[..., str], region: Region) -> None:
    found = preloaded("one = take(); libc.free(one); print(inode(one), inode(take()))")
    assert found.split() == ["None", str(os.fstat(region.fd).st_ino)]


def test_of_many_at_once_one_gets_it(preloaded: Callable[..., str]) -> None:
    code = (
        "got = []; all_ = [threading.Thread(target=lambda: got.append(inode(take()))) for _ in range(16)];"
        "[each.start() for each in all_]; [each.join() for each in all_]; print(sum(1 for each in got if each))"
    )
    assert preloaded(code) == "1"


@pytest.mark.parametrize(
    "variables",
    [
        {"ZCOPY_KV_FD": ""}, {"ZCOPY_KV_FD": "x"}, {"ZCOPY_KV_FD": "-1"}, {"ZCOPY_KV_FD": "0"}, {"ZCOPY_KV_FD": "9999"},
        {"ZCOPY_KV_BYTES": ""}, {"ZCOPY_KV_BYTES": "-5"}, {"ZCOPY_KV_BYTES": f"{SIZE}x"}, {"ZCOPY_KV_BYTES": "9" * 40},
        {"ZCOPY_KV_BYTES": f" {SIZE}"},
    ],
)  # fmt: skip
def test_anything_else_is_the_c_librarys(variables: dict[str, str], preloaded: Callable[..., str]) -> None:
    assert preloaded("one = take(); libc.free(one); print(inode(take()))", **variables) == "0"


def test_a_number_that_is_no_int_is_no_descriptor(preloaded: Callable[..., str], region: Region) -> None:
    assert preloaded("print(inode(take()))", ZCOPY_KV_FD=str(region.fd + 2**32)) == "0"


@pytest.mark.parametrize("command", [["/bin/true"], ["bash", "-c", "echo a | sort | wc -l"]])
def test_programs_that_have_nothing_to_do_with_it_run_as_ever(command: list[str]) -> None:
    environ = {**os.environ, "LD_PRELOAD": str(helper("zcopy-kv.so"))}
    done = subprocess.run(command, env=environ, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_exports_what_it_must_and_nothing_else() -> None:
    names = subprocess.run(
        ["nm", "-D", "--defined-only", Path(helper("zcopy-kv.so"))],
        capture_output=True,
        text=True,
        check=False,
    )
    if names.returncode:
        pytest.skip("this box has no nm")
    assert {line.split()[-1] for line in names.stdout.splitlines()} == {"posix_memalign", "free"}
