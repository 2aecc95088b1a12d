"""A region's label is what the kernel says it is."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import MeasurementError

pytestmark = pytest.mark.kernel

SIZE = 1 << 20
SEALED = 2 | 4  # F_SEAL_SHRINK, F_SEAL_GROW
HUGETLBFS, TMPFS = "0x958458f6", "0x1021994"
# What is in 2 MiB pages is what it is, too.
IS_ALSO = {"memfd-thp": {"memfd"}, "anon-thp": {"anon"}, "hugetlb": {"anon"}}


@pytest.fixture
def regions(kinds: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A region of each kind."""
    with ExitStack() as owned:
        yield {name: owned.enter_context(kind.allocate(SIZE, "zcopy-proof")) for name, kind in kinds.items()}


def fdinfo(fd: int) -> dict[str, str]:
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def listed(fd: int) -> tuple[int, str]:
    """Size and exporter in the kernel's own list of dma-bufs."""
    inode = os.fstat(fd).st_ino
    for line in Path("/sys/kernel/debug/dma_buf/bufinfo").read_text().splitlines():
        match line.split():
            case [size, _flags, _mode, _count, exporter, number, *_] if number == f"{inode:08d}":
                return int(size), exporter
    raise AssertionError(f"no dma-buf has inode {inode}")


def test_memfds_by_link_seals_and_filesystem(kinds: dict[str, Any], regions: dict[str, Any]) -> None:
    for name in ("memfd", "memfd-thp", "memfd-huge"):
        proof = kinds[name].proof(regions[name])
        assert proof["link"] == "/memfd:zcopy-proof (deleted)"
        assert fcntl.fcntl(regions[name].fd, fcntl.F_GET_SEALS) & SEALED == SEALED
        assert {"shrink", "grow"} <= set(proof["seals"])
        assert proof["filesystem"] == (HUGETLBFS if name == "memfd-huge" else TMPFS)
    assert kinds["memfd-thp"].proof(regions["memfd-thp"])["huge_bytes"] == 2 << 20


def test_dma_bufs_by_exporter_size_and_inode(kinds: dict[str, Any], regions: dict[str, Any]) -> None:
    exporters = {"udmabuf": "udmabuf", "dma-heap:system": "system"}
    dmabufs = {name: region for name, region in regions.items() if kinds[name].capabilities.dmabuf}
    assert len(dmabufs) == 7
    for name, region in dmabufs.items():
        proof = kinds[name].proof(region)
        exporter = exporters.get(name) or ("virtio_gpu" if proof["driver"] == "virtio_gpu" else "drm")
        assert proof["exp_name"] == exporter == fdinfo(region.fd)["exp_name"]
        assert proof["size"] == region.size == int(fdinfo(region.fd)["size"])
        assert proof["inode"] == os.fstat(region.fd).st_ino
        assert listed(region.fd) == (region.size, exporter)


def test_cards_by_driver(kinds: dict[str, Any], regions: dict[str, Any], cards: dict[str, str]) -> None:
    told = {card: kinds[f"drm:{card}"].proof(regions[f"drm:{card}"])["driver"] for card in cards}
    assert told == cards
    assert len(set(told.values())) == 5


def test_a_wrong_label_is_caught(kinds: dict[str, Any], regions: dict[str, Any]) -> None:
    """Every kind is asked to vouch for a region of every other kind."""
    passed = []
    for label, kind in kinds.items():
        kind.proof(regions[label])
        for name, region in regions.items():
            if name == label or label in IS_ALSO.get(name, ()):
                continue
            try:
                kind.proof(region)
            except MeasurementError as error:
                assert error.message.startswith(f"{label}: ")
            else:
                passed.append(f"{label} vouches for {name}")
    assert passed == []


def test_an_unsealed_memfd_is_none_of_ours(kinds: dict[str, Any]) -> None:
    from zcopy.native.region import Region

    fd = os.memfd_create("zcopy-unsealed", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, SIZE)
    with Region(fd, SIZE) as region, pytest.raises(MeasurementError, match="its seals are"):
        kinds["memfd"].proof(region)


def test_exports_can_be_written_and_end_with_exec(kinds: dict[str, Any], regions: dict[str, Any]) -> None:
    exporting = {name: region.fd for name, region in regions.items() if region.fd >= 0}
    assert set(exporting) == set(kinds) - {"anon", "anon-thp", "hugetlb"}
    for name, fd in exporting.items():
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR, name
        assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC, name
