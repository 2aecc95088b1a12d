"""All kinds of memory: a new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zcopy.buffers import amdgpu, amdxdna, dmaheap, drm, rknpu, rocket
from zcopy.buffers.anon import Anon, AnonThp, Hugetlb
from zcopy.buffers.base import Buffer
from zcopy.buffers.memfd import Memfd, MemfdHuge, MemfdThp
from zcopy.buffers.udmabuf import Udmabuf
from zcopy.errors import UsageError

if TYPE_CHECKING:
    from zcopy.host import Host

_FIXED = (Anon, AnonThp, Hugetlb, Memfd, MemfdThp, MemfdHuge, Udmabuf)
# Kinds of which a box has any number: their prefix, those that are here (without any, one that says why), and one by
# name even if it is not here.
_FAMILIES = ((dmaheap.PREFIX, dmaheap.heaps, dmaheap.DmaHeap), (drm.PREFIX, drm.cards, drm.DrmDumb))
# Drivers of accelerators: the kinds of each by a name of their own, whether the box has it or not.
_DRIVERS = (rknpu.buffers, amdxdna.buffers, amdgpu.buffers, rocket.buffers)


def kinds(host: Host) -> tuple[Buffer, ...]:
    """Every kind that exists on this box or could: the fixed ones, each heap and each card, those of accelerators.

    A family without a member here is one kind too: what the box lacks is a row that says why.
    """
    found: list[Buffer] = [kind() for kind in _FIXED]
    for _, here, _one in _FAMILIES:
        found.extend(here(host))
    for of_driver in _DRIVERS:
        found.extend(of_driver(host))
    return tuple(found)


def rejoined(words: Iterable[str], host: Host) -> tuple[str, ...]:
    """The words of a list that was split at commas, with the names that have one themselves whole again.

    The device tree names heaps such as ``linux,cma``.
    """
    torn = [tuple(kind.name.split(",")) for kind in kinds(host) if "," in kind.name]
    rest, found = tuple(words), []
    while rest:
        parts = next((parts for parts in torn if rest[: len(parts)] == parts), rest[:1])
        found.append(",".join(parts))
        rest = rest[len(parts) :]
    return tuple(found)


def catalogue() -> tuple[Buffer, ...]:
    """One of every kind that zcopy knows, whether this box has it or not; heaps and cards are called NAME."""
    families = (one("NAME") for _prefix, _here, one in _FAMILIES)
    return (*(kind() for kind in _FIXED), *families, *(kind for of in _DRIVERS for kind in of(None)))


def devices(names: Iterable[str], host: Host) -> tuple[str, ...]:
    """The locks of whoever measures with these kinds: the CPU's, and those of the devices behind them."""
    return ("cpu", *sorted({device for name in names for device in find(name, host).devices(host)}))


def drivers(names: Iterable[str], host: Host) -> tuple[str, ...]:
    """The kernel modules behind these kinds."""
    return tuple(dict.fromkeys(driver for name in names for driver in find(name, host).drivers()))


def find(name: str, host: Host) -> Buffer:
    """The kind of that name; a well-formed name of a heap or card that is not here is a kind that is unavailable.

    Raises UsageError for any other name.
    """
    for kind in kinds(host):
        if kind.name == name:
            return kind
    for prefix, _here, one in _FAMILIES:
        rest = name.removeprefix(prefix)
        if rest != name and rest.replace("-", "").replace("_", "").isalnum():
            return one(rest)
    known = ", ".join(kind.name for kind in kinds(host))
    raise UsageError(
        f"--buffer {name!r} is no kind of memory",
        f"there are: {known}, {dmaheap.PREFIX}NAME, {drm.PREFIX}CARD",
    )
