"""0 bytes copied is claimed where both processes map one object, and nowhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from zcopy.native import wire
from zcopy.native.rows import Layout
from zcopy.probes.handoff.evidence import SharedProof
from zcopy.probes.handoff.scatter import contiguous
from zcopy.probes.handoff.stage import Bench

pytestmark = pytest.mark.kernel

EXPORTING = ("memfd", "memfd-thp", "memfd-huge", "udmabuf", "dma-heap:system", "drm:card0", "drm:card1")


@pytest.fixture
def layout(sixty_four_cells: Any) -> Layout:
    tensors, size = sixty_four_cells.cache.tensors(64)
    return Layout(tensors, 64, size, contiguous(64))


@pytest.fixture
def peer(sixty_four_cells: Any, layout: Layout) -> Iterator[Any]:
    """A provider that knows the layout of its region and has not got one yet."""
    bench = Bench(sixty_four_cells, time.monotonic_ns, dict(os.environ), Random(1))
    with bench.provider() as provider:
        provider.tensors(wire.Slot.REGION, layout, (1, 1))
        yield provider


def objects(pid: int) -> set[tuple[str, int]]:
    """Device and inode of all that a process maps."""
    with open(f"/proc/{pid}/maps") as maps:  # noqa: PTH123
        return {(line.split()[3], int(line.split()[4])) for line in maps}


@pytest.mark.parametrize("name", EXPORTING)
def test_both_processes_map_one_object(kinds: dict[str, Any], peer: Any, layout: Layout, name: str) -> None:
    with ExitStack() as owned:
        region = owned.enter_context(kinds[name].allocate(layout.region_bytes, "zcopy-test"))
        proof = SharedProof(os.getpid(), peer.pid, layout.payload)
        _, mapped = peer.map(wire.Slot.REGION, region.export())
        stat = os.fstat(region.fd)
        one = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}", stat.st_ino
        assert (mapped.dev, mapped.ino) == (stat.st_dev, stat.st_ino)
        assert one in objects(os.getpid())
        assert one in objects(peer.pid)
        assert proof.fault(region.address, frozenset({stat.st_ino})) is None


@pytest.mark.parametrize("name", EXPORTING)
def test_another_object_of_the_same_kind_is_not_the_region(
    kinds: dict[str, Any], peer: Any, layout: Layout, name: str
) -> None:
    with (
        kinds[name].allocate(layout.region_bytes, "zcopy-test") as region,
        kinds[name].allocate(layout.region_bytes, "zcopy-test") as other,
    ):
        proof = SharedProof(os.getpid(), peer.pid, layout.payload)
        peer.map(wire.Slot.REGION, other.export())
        known = frozenset(os.fstat(each.fd).st_ino for each in (region, other))
        assert proof.fault(region.address, known) == "the provider does not map the region's object"
