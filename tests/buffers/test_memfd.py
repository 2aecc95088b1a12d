"""memfds: what the kernel confirms of them, and that a wrong label is caught."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.buffers.anon import Anon
from zcopy.buffers.base import Buffer
from zcopy.buffers.identify import fdinfo, link, prove_dmabuf, prove_memfd, seal_names
from zcopy.buffers.memfd import Memfd, MemfdHuge, MemfdThp, sealed
from zcopy.buffers.pages import HUGE, mapped_huge
from zcopy.errors import MeasurementError, RefusedError
from zcopy.host import Host
from zcopy.native import fds
from zcopy.native.calls import NativeError
from zcopy.native.region import Region
from zcopy.units import MIB

SIZE = 64 * 1024


def test_a_memfd_proves_itself() -> None:
    with Memfd().allocate(SIZE, "zcopy-label") as region:
        proof = Memfd().proof(region)
    assert proof["link"] == "/memfd:zcopy-label (deleted)"
    assert {"shrink", "grow"} <= set(proof["seals"])  # type: ignore[arg-type]
    assert proof["filesystem"] == "0x1021994"


def test_sizes_are_rounded_up_to_whole_pages() -> None:
    for asked, given in ((1, 4096), (4096, 4096), (4097, 8192)):
        with Memfd().allocate(asked, "x") as region:
            assert region.size == os.fstat(region.fd).st_size == given


def unsealed(_tmp: Path) -> int:
    fd = os.memfd_create("zcopy-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    return fd


def half_sealed(_tmp: Path) -> int:
    fd = unsealed(_tmp)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd


def regular(tmp: Path) -> int:
    fd = os.open(tmp / "memfd:file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, SIZE)
    return fd


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (unsealed, r"its seals are \[\]"),
        (half_sealed, "its seals are"),
        (regular, "its link is '/.*memfd:file'"),
    ],
)
def test_what_is_no_sealed_memfd_does_not_pass_as_one(
    make: Callable[[Path], int], fault: str, tmp_path: Path
) -> None:
    with Region(make(tmp_path), SIZE) as region, pytest.raises(MeasurementError, match=fault) as caught:
        Memfd().proof(region)
    assert caught.value.message.startswith("memfd: the kernel does not confirm this label")


def test_a_smaller_object_does_not_pass() -> None:
    fd = fds.memfd("zcopy-test", SIZE)
    with pytest.raises(MeasurementError, match="smaller than asked"):
        prove_memfd(fd, SIZE + 1, "memfd", fds.TMPFS_MAGIC)
    os.close(fd)


def test_a_memfd_on_base_pages_is_no_memfd_huge() -> None:
    with (
        Memfd().allocate(HUGE, "x") as region,
        pytest.raises(MeasurementError, match="filesystem is 0x1021994"),
    ):
        MemfdHuge().proof(region)


def test_a_memfd_is_no_dmabuf() -> None:
    with Memfd().allocate(SIZE, "x") as region, pytest.raises(MeasurementError, match="its link is '/memfd"):
        prove_dmabuf(region.fd, SIZE, "udmabuf", "udmabuf")


def test_anonymous_memory_has_nothing_to_prove() -> None:
    with Anon().allocate(1, "x") as region:
        assert (region.size, Anon().proof(region)) == (4096, {"link": None})


def test_the_kernels_words_on_a_descriptor() -> None:
    fd = fds.memfd("zcopy-test", SIZE)
    try:
        assert link(fd) == "/memfd:zcopy-test (deleted)"
        assert int(fdinfo(fd)["ino"]) == os.fstat(fd).st_ino
        assert seal_names(fd)[:2] == ["shrink", "grow"]
    finally:
        os.close(fd)
    read, write = os.pipe()
    assert (link(read).startswith("pipe:"), seal_names(read)) == (True, [])
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("kind", [Memfd(), Anon()])
def test_more_than_there_can_be_is_refused(kind: Buffer) -> None:
    with pytest.raises(RefusedError) as caught:
        kind.allocate(1 << 60, "x")
    assert caught.value.message.startswith(f"{kind.name}: ")


@pytest.mark.usefixtures("nothing_left")
def test_a_memfd_that_cannot_be_mapped_is_closed() -> None:
    with pytest.raises(NativeError, match="Cannot allocate"):
        sealed("x", 1 << 60)


@pytest.fixture
def thp(real: Host) -> MemfdThp:
    kind = MemfdThp()
    if reason := kind.unavailable(real):
        pytest.skip(reason)
    return kind


def test_memfd_thp_is_in_huge_pages_when_it_is_there(thp: MemfdThp) -> None:
    """By MADV_COLLAPSE: neither privilege nor the shmem policy has a say."""
    with thp.allocate(3 * MIB, "x") as region:
        assert region.size == 4 * MIB
        assert mapped_huge(region) == 4 * MIB
        assert thp.proof(region)["huge_bytes"] == 4 * MIB
        assert os.fstat(region.fd).st_blocks * 512 == 4 * MIB


def test_base_pages_do_not_pass_as_huge_ones(thp: MemfdThp) -> None:
    with Memfd().allocate(4 * MIB, "x") as region:
        region.populate()
        if mapped_huge(region):
            pytest.skip("shared memory gets huge pages by itself here")
        with pytest.raises(MeasurementError, match="only 0 B of 4 MiB are in 2 MiB pages"):
            thp.proof(region)


@pytest.mark.usefixtures("nothing_left")
def test_where_pages_cannot_be_gathered_the_kind_is_unavailable(
    real: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux before 6.1, or without transparent huge pages."""

    def refuse(_: Region) -> None:
        raise NativeError(22, os.strerror(22))

    for step in ("collapse", "advise_huge"):
        monkeypatch.setattr(Region, step, refuse)
    assert MemfdThp().unavailable(real) == "memfd-thp: 2 MiB in 2 MiB pages: Invalid argument (EINVAL)"


def huge_pages(total: int, free: int, reserved: int = 0, overcommit: int = 0) -> str:
    folder = "sys/kernel/mm/hugepages/hugepages-2048kB"
    return "\n".join(
        f"{folder}/{name} = {value}"
        for name, value in (
            ("nr_hugepages", total),
            ("free_hugepages", free),
            ("resv_hugepages", reserved),
            ("nr_overcommit_hugepages", overcommit),
            ("surplus_hugepages", 0),
        )
    )


@pytest.mark.parametrize(
    "pool",
    ["", huge_pages(0, 0), huge_pages(8, 0), huge_pages(8, 3, reserved=3)],
    ids=["no hugetlb", "empty", "all used", "all promised"],
)
def test_without_free_pages_memfd_huge_is_unavailable(pool: str, tree: Callable[[str], Host]) -> None:
    assert "vm.nr_hugepages" in str(MemfdHuge().unavailable(tree(pool)))


def test_the_pools_free_pages_are_the_limit(tree: Callable[[str], Host]) -> None:
    limit = MemfdHuge().limit(tree(huge_pages(8, 5, reserved=2, overcommit=1)))
    assert limit is not None
    assert limit[0] == 4 * HUGE
    assert "pool" in limit[1]


def test_an_empty_pool_is_refused_by_the_kernel_too(real: Host) -> None:
    if any(pool.available + pool.overcommit for pool in real.pools()):
        pytest.skip("this box has huge pages in its pool")
    with pytest.raises(RefusedError) as caught:
        MemfdHuge().allocate(HUGE, "x")
    assert caught.value.message.startswith("memfd-huge: 2 MiB: ")
    assert "vm.nr_hugepages" in caught.value.hint


@pytest.mark.usefixtures("nothing_left")
def test_memfd_huge_from_this_boxs_pool(real: Host) -> None:
    """The kernel guest has such a pool."""
    kind = MemfdHuge()
    if reason := kind.unavailable(real):
        pytest.skip(reason)
    with kind.allocate(HUGE + 1, "x") as region:
        assert region.size == 2 * HUGE
        assert kind.proof(region)["filesystem"] == hex(fds.HUGETLBFS_MAGIC)
        region.populate()
        region.view()[-1] = 1
        with pytest.raises(MeasurementError, match="filesystem"):
            Memfd().proof(region)
