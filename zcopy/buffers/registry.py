"""All kinds of memory: a new one is one file and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zcopy.buffers import dmaheap, drm
from zcopy.buffers.anon import Anon
from zcopy.buffers.base import Buffer
from zcopy.buffers.memfd import Memfd, MemfdHuge, MemfdThp
from zcopy.buffers.udmabuf import Udmabuf
from zcopy.errors import UsageError

if TYPE_CHECKING:
    from zcopy.host import Host

_FIXED = (Anon, Memfd, MemfdThp, MemfdHuge, Udmabuf)
# Kinds of which a box has any number: their prefix, those that are here, and one by name even if it is not here.
_FAMILIES = ((dmaheap.PREFIX, dmaheap.heaps, dmaheap.DmaHeap), (drm.PREFIX, drm.cards, drm.DrmDumb))


def kinds(host: Host) -> tuple[Buffer, ...]:
    """Every kind that exists on this box or could: the fixed ones, then each heap and each card."""
    found: list[Buffer] = [kind() for kind in _FIXED]
    for _, here, _one in _FAMILIES:
        found.extend(here(host))
    return tuple(found)


def catalogue() -> tuple[Buffer, ...]:
    """One of every kind that zcopy knows, whether this box has it or not; heaps and cards are called NAME."""
    return (*(kind() for kind in _FIXED), *(one("NAME") for _prefix, _here, one in _FAMILIES))


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
