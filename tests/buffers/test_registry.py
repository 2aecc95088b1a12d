"""Which kinds of memory there are, and finding one by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zcopy.buffers import registry
from zcopy.buffers.base import Buffer
from zcopy.buffers.dmaheap import DmaHeap
from zcopy.buffers.drm import DrmDumb
from zcopy.buffers.memfd import Memfd
from zcopy.errors import UsageError
from zcopy.host import Host

FIXED = ["anon", "anon-thp", "hugetlb", "memfd", "memfd-thp", "memfd-huge", "udmabuf"]
ACCELERATORS = [
    *("rknpu:cacheable", "rknpu:wc", "rknpu:device", "rknpu:sram"),
    *("amdxdna", "amdgpu:gtt", "amdgpu:gtt-uswc", "amdgpu:vram", "rocket"),
]


def test_what_a_bare_box_lacks_is_a_kind_that_says_why(tree: Callable[[str], Host]) -> None:
    kinds = registry.kinds(tree(""))
    assert [kind.name for kind in kinds] == [*FIXED, "dma-heap:system", "drm:card0", *ACCELERATORS]
    heap, card = (kind.unavailable(tree("")) for kind in kinds[len(FIXED) : len(FIXED) + 2])
    assert str(heap).startswith("this box has no /dev/dma_heap: ")
    assert str(card).startswith("this box has no /dev/dri: ")


def test_a_family_that_is_here_has_no_stand_in(tree: Callable[[str], Host]) -> None:
    host = tree("sys/class/dma_heap/reserved/dev = 250:0\nsys/class/drm/card7/dev = 226:7\n")
    assert [kind.name for kind in registry.kinds(host)] == [
        *FIXED,
        "dma-heap:reserved",
        "drm:card7",
        *ACCELERATORS,
    ]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ()),
        (("memfd", "dma-heap:linux", "cma", "anon"), ("memfd", "dma-heap:linux,cma", "anon")),
        (("dma-heap:linux", "anon", "cma"), ("dma-heap:linux", "anon", "cma")),
        (("anon", "dma-heap:linux"), ("anon", "dma-heap:linux")),
    ],
)
def test_a_heap_with_a_comma_in_its_name_is_one_word(
    words: tuple[str, ...], names: tuple[str, ...], tree: Callable[[str], Host]
) -> None:
    host = tree("sys/class/dma_heap/linux,cma/dev = 250:0\nsys/class/dma_heap/system/dev = 250:1\n")
    assert registry.rejoined(words, host) == names
    assert registry.find("dma-heap:linux,cma", host).name == "dma-heap:linux,cma"


def test_every_heap_and_card_is_a_kind(everything: Host) -> None:
    names = [kind.name for kind in registry.kinds(everything)]
    assert names == [*FIXED, "dma-heap:system", "drm:card7", *ACCELERATORS]


def test_names_are_distinct_and_every_kind_says_what_it_is(everything: Host) -> None:
    kinds = registry.kinds(everything)
    assert len({kind.name for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert kind.summary
        assert kind.granule % 4096 == 0
        assert kind.room(1) == kind.granule == kind.room(kind.granule)


@pytest.mark.parametrize("name", [*FIXED, "dma-heap:system", "drm:card7", *ACCELERATORS])
def test_a_kind_is_found_by_its_name(name: str, everything: Host) -> None:
    assert registry.find(name, everything).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "memfd ",
        "Memfd",
        "malloc",
        "dma-heap",
        "dma-heap:",
        "drm:",
        "drm:../card0",
        "dma-heap:a b",
        "[x]",
        "rknpu:x",
    ],
)
def test_another_name_is_a_wrong_word_and_the_right_ones_are_told(name: str, everything: Host) -> None:
    with pytest.raises(UsageError) as caught:
        registry.find(name, everything)
    assert repr(name) in caught.value.message
    for known in (*FIXED, "dma-heap:system", "drm:card7", "dma-heap:NAME", "drm:CARD"):
        assert known in caught.value.hint


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dma-heap:no-such_heap", "this kernel offers no /dev/dma_heap/no-such_heap"),
        ("drm:card99", "this box has no /dev/dri/card99"),
    ],
)
def test_a_wellformed_name_of_what_is_not_here_is_unavailable(
    name: str, reason: str, everything: Host
) -> None:
    kind = registry.find(name, everything)
    assert kind.name == name
    assert kind.unavailable(everything) == reason


def test_what_can_be_handed_over_has_a_descriptor(real: Host) -> None:
    for kind in registry.kinds(real):
        if kind.unavailable(real) is not None:
            continue
        with kind.allocate(kind.granule, "zcopy-test") as region:
            assert (region.fd >= 0) == kind.capabilities.exportable
            assert region.dmabuf == kind.capabilities.dmabuf


def available(real: Host) -> list[Buffer]:
    return [kind for kind in registry.kinds(real) if kind.unavailable(real) is None]


def test_what_is_here_gives_zeroed_writable_memory(real: Host, cloexec: Callable[[int], bool]) -> None:
    kinds = available(real)
    assert {"anon", "memfd"} <= {kind.name for kind in kinds}
    for kind in kinds:
        with kind.allocate(kind.granule + 1, "zcopy-test") as region:
            assert region.size >= kind.granule + 1, kind.name
            assert kind.proof(region), kind.name
            assert region.fd < 0 or cloexec(region.fd), kind.name
            with region.access(write=True) as view:
                assert bytes(view) == bytes(region.size), kind.name
                view[-1] = 1


@pytest.mark.usefixtures("nothing_left")
def test_looking_for_kinds_leaves_nothing_behind(everything: Host, real: Host) -> None:
    for host in (everything, real):
        for kind in registry.kinds(host):
            kind.unavailable(host)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Memfd(), "cached"),
        (DrmDumb("card0", "vgem"), "write-combine"),
        (DrmDumb("card0", "qxl"), "cached"),
        (DrmDumb("card0", "unheard"), None),
        (DrmDumb("card1"), None),
        (DmaHeap("system"), "cached"),
        (DmaHeap("system-uncached"), None),
    ],
)
def test_how_a_kind_is_mapped_is_said_only_where_it_is_known(
    kind: Buffer, said: str | None, tree: Callable[[str], Host]
) -> None:
    assert kind.declared(tree("")) == said
