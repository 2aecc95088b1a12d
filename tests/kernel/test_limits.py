"""What a kind of memory does not allow is said with figures, hints and rules, before the kernel is asked or after."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import MeasurementError, RefusedError
from zcopy.native import fds
from zcopy.native.calls import ExhaustedError, NativeError

pytestmark = pytest.mark.kernel

MIB = 1 << 20
HEAP_ALLOC = 0xC0184800  # DMA_HEAP_IOCTL_ALLOC
LIMIT = Path("/sys/module/udmabuf/parameters/size_limit_mb")
DEFAULT_LIMIT = {"6.12": "64", "7.3": "2147483647"}
SHORT = ("handoff", "--json", "--model", "tiny", "--cells", "16", "--reps", "1", "--region", "reused")
CELL = 2048  # bytes of a cell of the preset tiny
NOBODY = 65534

Call = Callable[..., Any]


@pytest.fixture
def udmabuf_limit() -> Iterator[Callable[[int], None]]:
    """Sets udmabuf's size_limit_mb, until the end of the test."""
    before = LIMIT.read_text()

    def to(mib: int) -> None:
        LIMIT.write_text(str(mib))

    yield to
    LIMIT.write_text(before)


def one_row(done: Any) -> dict[str, Any]:
    (row,) = done.rows
    found: dict[str, Any] = row
    return found


def test_more_than_64_mib_of_udmabuf(zcopy: Call) -> None:
    """On 6.12 a skipped row that says which limit; on 7.3 the default allows it."""
    series, limit = ".".join(platform.release().split(".")[:2]), LIMIT.read_text().strip()
    assert limit == DEFAULT_LIMIT.get(series, limit)
    done = zcopy(*SHORT, "--ctx", str(65 * MIB // CELL), "--route", "shared", "--buffer", "udmabuf")
    row = one_row(done)
    if int(limit) < 65:
        assert (done.code, row["outcome"]) == (77, "skipped")
        assert row["reason"] == f"needs 65 MiB of udmabuf: udmabuf's size_limit_mb is {limit} ({limit} MiB)"
    else:
        assert (done.code, row["outcome"], row["verified"]) == (0, "ok", True)
        assert row["proof"]["size"] == row["region_bytes"] == 65 * MIB


def test_the_limit_is_read_when_it_matters(zcopy: Call, udmabuf_limit: Callable[[int], None]) -> None:
    udmabuf_limit(1)
    words = (*SHORT, "--ctx", str(2 * MIB // CELL), "--route", "shared", "--buffer", "udmabuf")
    row = one_row(zcopy(*words))
    assert row["outcome"] == "skipped"
    assert row["reason"] == "needs 2 MiB of udmabuf: udmabuf's size_limit_mb is 1 (1 MiB)"
    udmabuf_limit(2)
    assert one_row(zcopy(*words))["outcome"] == "ok"


def test_udmabufs_refusal_has_a_hint(kinds: dict[str, Any], udmabuf_limit: Callable[[int], None]) -> None:
    udmabuf_limit(1)
    with pytest.raises(RefusedError) as caught:
        kinds["udmabuf"].allocate(2 * MIB, "zcopy-test")
    assert caught.value.message == "udmabuf: 2 MiB: Invalid argument (EINVAL)"
    assert "size_limit_mb" in caught.value.hint


def memory(size: int, *seals: int) -> int:
    fd = os.memfd_create("zcopy-test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    for seal in seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seal)
    return fd


@pytest.mark.parametrize(
    ("make", "size", "name"),
    [
        (lambda: memory(8192), 8192, "EINVAL"),  # can shrink
        (lambda: memory(8192, fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_WRITE), 8192, "EINVAL"),
        (lambda: memory(8192, fcntl.F_SEAL_SHRINK), 16384, "EINVAL"),  # beyond its end
        (lambda: memory(8192, fcntl.F_SEAL_SHRINK), 100, "EINVAL"),  # no whole pages
        (lambda: os.open("/dev/null", os.O_RDWR), 8192, "EBADFD"),
    ],
)
def test_what_udmabuf_takes_no_pages_from(make: Callable[[], int], size: int, name: str) -> None:
    device, memfd = os.open("/dev/udmabuf", os.O_RDWR), make()
    try:
        with pytest.raises(NativeError) as caught:
            fds.udmabuf(device, memfd, size)
        assert caught.value.name == name
    finally:
        os.close(memfd)
        os.close(device)


def test_a_heap_is_never_asked_for_more_than_there_is(zcopy: Call, system_calls: Call) -> None:
    """The system heap checks no sizes: asked for more than the box has, it ends in the out-of-memory killer."""
    cells = (3 << 30) // CELL
    with system_calls(HEAP_ALLOC).during() as calls:
        done = zcopy(*SHORT, "--ctx", str(cells), "--route", "shared", "--buffer", "dma-heap:system")
    row = one_row(done)
    assert (done.code, row["outcome"]) == (77, "skipped")
    left = r"needs 3 GiB more memory, [\d.]+ [GM]iB are left \(MemAvailable\)"
    assert re.fullmatch(left, row["reason"]), row["reason"]
    asked = {each.word for each in calls if each.command == HEAP_ALLOC}
    assert asked == {4096}  # the throw-away buffer that finds out whether the heap is to be had


@pytest.mark.usefixtures("huge_pages")
def test_hugetlb_pages_that_are_not_there(zcopy: Call) -> None:
    words = ("--ctx", str(40 * MIB // CELL), "--route", "shared", "--buffer", "memfd-huge")
    row = one_row(zcopy(*SHORT, *words))
    assert row["outcome"] == "skipped"
    pool = "free pages in the 2 MiB hugetlb pool (32 MiB)"
    assert row["reason"] == f"needs 40 MiB of memfd-huge: {pool}"


def let_everyone_through(*folders: Path) -> None:
    """Lets other users search the ways to these folders. The guest's file system is its own."""
    assert "ZCOPY_GUEST_OUT" in os.environ, "for the kernel guest only"
    for way in {parent for folder in folders for parent in (folder, *folder.parents)}:
        way.chmod(way.stat().st_mode | 0o005)


def test_another_user_is_told_mode_group_and_rule(process: Call, own_home: Path) -> None:
    """As nobody: what is root's is skipped with the rule that helps, what the group may open is measured."""
    import zcopy as package

    let_everyone_through(own_home, Path(sys.prefix), Path(package.__file__).parent)
    os.chown(own_home, NOBODY, NOBODY)
    node = Path("/dev/udmabuf")
    before = node.stat()
    os.chown(node, 0, NOBODY)
    node.chmod(0o660)
    try:
        user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        buffers = "dma-heap:system,drm:card0,udmabuf"
        with process(*SHORT, "--ctx", "64", "--route", "shared", "--buffer", buffers, before=user) as run:
            stdout, stderr = run.communicate(timeout=120)
    finally:
        os.chown(node, before.st_uid, before.st_gid)
        node.chmod(before.st_mode)
    assert run.returncode == 77, stderr
    rows = {row["case"]["buffer"]: row for row in json.loads(stdout)["rows"]}
    assert rows["udmabuf"]["outcome"] == "ok"
    rule = 'needs root, or a udev rule: SUBSYSTEM=="{}", KERNEL=="{}", GROUP="render", MODE="0660"'
    for name, path, subsystem in (
        ("dma-heap:system", "/dev/dma_heap/system", "dma_heap"),
        ("drm:card0", "/dev/dri/card0", "drm"),
    ):
        assert rows[name]["outcome"] == "skipped"
        said = rule.format(subsystem, Path(path).name)
        assert rows[name]["reason"] == f"{path} is 0600 root:root: {said}"


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Exactly so many more descriptors can be opened."""
    highest = max(int(fd.name) for fd in Path("/proc/self/fd").iterdir())
    fillers: list[int] = []
    while not fillers or fillers[-1] < highest:
        fillers.append(os.dup(0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1 + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in fillers:
            os.close(fd)


def test_without_descriptors_a_kind_refuses(kinds: dict[str, Any]) -> None:
    """One descriptor after another is taken away from what a kind needs; what was opened on the way is closed."""
    refusals: Counter[str] = Counter()
    for left in range(3):
        with descriptors_left(left):
            for name, kind in kinds.items():
                try:
                    kind.allocate(4096, "zcopy-test").close()
                except ExhaustedError as error:
                    assert "Too many open files (EMFILE, ulimit -n is " in error.message
                    refusals[name] += 1
    cards = {name: 2 for name in kinds if name.startswith("drm:")}
    assert refusals == {
        "anon-thp": 1,
        "memfd": 1,
        "memfd-thp": 2,
        "memfd-huge": 1,
        "udmabuf": 3,
        "dma-heap:system": 2,
        **cards,
    }


def test_without_descriptors_a_label_cannot_be_proved(kinds: dict[str, Any]) -> None:
    for name, kind in kinds.items():
        with kind.allocate(4096, "zcopy-test") as region:
            try:
                with descriptors_left(0):
                    kind.proof(region)
            except MeasurementError as error:
                assert "Too many open files (EMFILE, ulimit -n is " in error.message
            else:
                assert name in ("anon", "memfd", "memfd-huge")  # asked without opening anything
