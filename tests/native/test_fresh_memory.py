"""What touching memory costs in page faults, and that guarding fresh memory costs none: counts, not times."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator

import pytest

from zcopy.host import Host
from zcopy.native import _zc, fds, rows
from zcopy.native.region import Region
from zcopy.native.rows import K, Layout, Tensor
from zcopy.units import MIB

lib = _zc.lib


def test_the_guard_of_fresh_memory_leaves_its_holes(region: Callable[[int], Region]) -> None:
    """16 MiB of which 2 pages are owned: checking all the rest costs neither pages nor reading."""
    one = region(16 * MIB)
    layout = Layout([Tensor(MIB, 4096, 0, 4096, 0, 0, K)], 3840, 16 * MIB, [(5, 2)])
    rows.write_rows(one, layout, 1)
    blocks = os.fstat(one.fd).st_blocks
    assert blocks * 512 <= 4 * 4096
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    assert rows.check_guard(one, layout, 0, holes=True) is None
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - faults < 20
    assert os.fstat(one.fd).st_blocks == blocks


@pytest.mark.parametrize("where", [0, 5 * MIB + 123, 16 * MIB - 1])
def test_a_byte_in_what_was_a_hole_is_found(where: int, region: Callable[[int], Region]) -> None:
    one = region(16 * MIB)
    layout = Layout([Tensor(MIB, 4096, 0, 4096, 0, 0, K)], 3840, 16 * MIB, [(5, 2)])
    rows.write_rows(one, layout, 1)
    one.view()[where] = 1
    found = rows.check_guard(one, layout, 0, holes=True)
    assert found is not None
    assert (found.at, found.guard, found.extents) == (where, True, 1)


def test_a_byte_beside_the_rows_on_their_own_page_is_found(region: Callable[[int], Region]) -> None:
    one = region(MIB)
    layout = Layout([Tensor(0, 100, 0, 100, 0, 0, K)], 1000, MIB, [(5, 2)])
    rows.write_rows(one, layout, 1)
    for where in (499, 700):
        one.view()[where] = 1
        found = rows.check_guard(one, layout, 0, holes=True)
        assert found is not None
        assert found.at == where
        one.view()[where] = 0


PAGE = os.sysconf("SC_PAGE_SIZE")
FAULT_AROUND = 64 * 1024  # mm/memory.c; only debugfs can change it
COVERED = 32 * MIB


@pytest.fixture
def second_mapping() -> Iterator[Callable[[bool], Region]]:
    """A mapping of a memfd that another mapping has populated (or not): what a provider receives."""
    thp = Host.read().memory.thp
    policies = {thp.shmem_enabled, *(each.shmem_enabled for each in thp.sizes)}
    if policies & {"always", "within_size", "force"}:
        pytest.skip("shared memory gets large pages by itself here: faults cannot be counted in advance")
    made: list[Region] = []

    def new(populated: bool) -> Region:
        exporter = Region(fds.memfd("zcopy-test", COVERED), COVERED)
        if populated:
            exporter.populate()
        made.extend((exporter, Region(os.dup(exporter.fd), COVERED)))
        return made[-1]

    yield new
    for each in made:
        each.close()


def faults_of(call: Callable[[], object]) -> int:
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


WHOLE = Layout([Tensor(0, 2048, 0, 2048, 0, 0, K)], COVERED // 2048, COVERED, [(0, COVERED // 2048)])
SLACK = 12


@pytest.mark.parametrize("populated", [False, True])
def test_without_preread_every_page_faults(second_mapping: Callable[[bool], Region], populated: bool) -> None:
    one = second_mapping(populated)
    faults = faults_of(lambda: rows.write_rows(one, WHOLE, 1))
    assert COVERED // PAGE <= faults <= COVERED // PAGE + SLACK


def test_preread_faults_once_per_sixteen_pages(second_mapping: Callable[[bool], Region]) -> None:
    """16 pages of 4 KiB: fault-around maps them together, writable since the mapping is shared."""
    one = second_mapping(True)
    faults = faults_of(lambda: lib.zc_rows_preread(one.pointer, WHOLE.raw))
    assert COVERED // FAULT_AROUND <= faults <= COVERED // FAULT_AROUND + SLACK
    assert faults_of(lambda: rows.write_rows(one, WHOLE, 1)) <= SLACK


def test_preread_touches_only_what_is_owned(second_mapping: Callable[[bool], Region]) -> None:
    one = second_mapping(True)
    sparse = Layout(WHOLE.tensors, WHOLE.n_cells, COVERED, [(64 * i, 1) for i in range(0, 256, 2)])
    faults = faults_of(lambda: lib.zc_rows_preread(one.pointer, sparse.raw))
    assert 128 <= faults <= 128 + SLACK
    assert faults_of(lambda: rows.write_rows(one, sparse, 1)) <= SLACK
