"""Anonymous memory: private as malloc's, in pages of the size that the kind is called after."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.buffers.anon import Anon, AnonThp, Hugetlb
from zcopy.buffers.memfd import sealed
from zcopy.buffers.pages import HUGE, smaps
from zcopy.errors import MeasurementError, RefusedError
from zcopy.host import Host
from zcopy.native.calls import NativeError
from zcopy.native.region import Region

pytestmark = pytest.mark.usefixtures("nothing_left")


def holds(ends: str, address: int) -> bool:
    first, end = (int(each, 16) for each in ends.split("-"))
    return first <= address < end


def test_anon_is_private_and_has_no_descriptor() -> None:
    with Anon().allocate(10_000, "x") as region:
        maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        (head,) = (line for line in maps if holds(line[0], region.address))
        assert region.size == 12_288
        assert head[1:] == ["rw-p", "00000000", "00:00", "0"]
        assert Anon().proof(region) == {"link": None}


def test_anon_thp_is_all_in_huge_pages(real: Host) -> None:
    if reason := AnonThp().unavailable(real):
        pytest.skip(reason)
    with AnonThp().allocate(HUGE + 1, "x") as region:
        assert AnonThp().proof(region) == {"link": None, "huge_bytes": 2 * HUGE}
        assert smaps(region)["AnonHugePages"] == 2 * HUGE


def test_neighbours_in_one_mapping_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows two of them as one mapping: what is not huge in it could be either's."""
    fields = {"Size": 3 * HUGE, "AnonHugePages": 3 * HUGE}
    monkeypatch.setattr("zcopy.buffers.pages.smaps", lambda _: fields)
    with Anon().allocate(HUGE, "x") as region:
        assert AnonThp().proof(region)["huge_bytes"] == HUGE
        fields["AnonHugePages"] -= 4096
        with pytest.raises(MeasurementError, match="of 2 MiB are in 2 MiB pages"):
            AnonThp().proof(region)


def test_small_pages_are_no_anon_thp() -> None:
    with Anon().allocate(HUGE, "x") as region:
        region.view()[0] = 1
        if smaps(region).get("AnonHugePages"):
            pytest.skip("this box makes every page huge")
        with pytest.raises(MeasurementError, match="only 0 B of 2 MiB"):
            AnonThp().proof(region)


def test_where_pages_cannot_be_huge_anon_thp_is_unavailable(
    real: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Region) -> None:
        raise NativeError(22, os.strerror(22))

    monkeypatch.setattr(Region, "advise_huge", refuse)
    assert AnonThp().unavailable(real) == "anon-thp: 2 MiB: Invalid argument (EINVAL)"


def test_hugetlb_says_how_to_fill_the_pool(tree: Callable[[str], Host], real: Host) -> None:
    assert "vm.nr_hugepages" in str(Hugetlb().unavailable(tree("")))
    if any(pool.available + pool.overcommit for pool in real.pools()):
        pytest.skip("this box has huge pages in its pool")
    with pytest.raises(RefusedError) as caught:
        Hugetlb().allocate(HUGE, "x")
    assert caught.value.message == "hugetlb: 2 MiB: Cannot allocate memory (ENOMEM)"


def test_hugetlb_from_this_boxs_pool(real: Host) -> None:
    """The kernel guest has such a pool."""
    if reason := Hugetlb().unavailable(real):
        pytest.skip(reason)
    with Hugetlb().allocate(HUGE + 1, "x") as region:
        assert region.size == 2 * HUGE
        assert Hugetlb().proof(region) == {"link": None, "page_bytes": HUGE}
        region.view()[-1] = 1


def test_base_pages_are_no_hugetlb() -> None:
    with Anon().allocate(HUGE, "x") as region, pytest.raises(MeasurementError, match="pages of 4 KiB"):
        Hugetlb().proof(region)


@pytest.mark.parametrize("kind", [Anon(), AnonThp(), Hugetlb()])
def test_memory_with_a_descriptor_is_none_of_them(kind: Anon) -> None:
    with sealed("x", HUGE) as region, pytest.raises(MeasurementError):
        kind.proof(region)
