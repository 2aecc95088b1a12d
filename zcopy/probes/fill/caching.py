"""How a buffer is mapped, from how it reads and writes against ordinary memory in the same run.

No call tells user space the attribute of a mapping. What it does to loads and stores can be seen: cached memory reads
at the rate of memory; a write-combine mapping fetches every load on its own, but gathers stores; an uncached one does
neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcopy.native.fill import Mover, Span, fill, find_mover, read_through
from zcopy.native.region import Region
from zcopy.stats import median

CACHED: Final = "cached"
WRITE_COMBINE: Final = "write-combine"
UNCACHED: Final = "uncached"
UNCLEAR: Final = "unclear"
HIDDEN: Final = "not observable"

# Shares of ordinary memory's rate. Reading a write-combine mapping was reported 90 times slower, and 5 times is where
# reports begin to call it a fault; streaming stores into one go at memory's rate. Device memory on RK3588 took 1.1 GB/s
# where cached memory took 12.
_READS_CACHED: Final = 0.5
_READS_SLOWLY: Final = 0.2
_GATHERS: Final = 0.4
_STORES_SINGLY: Final = 0.2
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Rates:
    """Medians, in ns: reading every line of a buffer once, and streaming over all of it."""

    size: int
    read_ns: int
    write_ns: int


def rates(region: Region, source: Region, size: int) -> Rates:
    """Measures a buffer that has been touched; its bytes are those of `source` afterwards. Raises NativeError."""
    span, mover = Span(0, size), _streaming()
    region.begin(write=True)
    try:
        read_through(region, size)
        read = median([read_through(region, size) for _ in range(_TRIES)])
        write = median([fill(region, source, span, mover) for _ in range(_TRIES)])
    finally:
        region.end(write=True)
    return Rates(size, read, write)


def _streaming() -> Mover:
    """Stores that pass the caches by: they measure the memory behind a cached mapping too."""
    try:
        return find_mover("nt")
    except ValueError:
        return find_mover("memcpy")


def classify(here: Rates, ordinary: Rates) -> str:
    """`cached`, `write-combine`, `uncached`, or `unclear` where the rates lie between."""
    read = ordinary.read_ns / max(1, here.read_ns)
    write = ordinary.write_ns / max(1, here.write_ns)
    if read >= _READS_CACHED:
        return CACHED
    if read >= _READS_SLOWLY:
        return UNCLEAR
    if write >= _GATHERS:
        return WRITE_COMBINE
    return UNCACHED if write < _STORES_SINGLY else UNCLEAR


def observed(found: str, *, device: bool, virtual: str | None) -> str:
    """What may be said of a measured `found`.

    A hypervisor can overrule how its guest maps a device's memory (KVM on Intel ignores the guest's attributes unless
    a device with non-coherent DMA is passed through; an emulator has no caches): reading fast proves nothing there,
    reading slowly still does.
    """
    return HIDDEN if device and virtual and found == CACHED else found


def contradiction(name: str, found: str, declared: str | None) -> str | None:
    """What to tell a user whose buffer does not behave as its driver says; None where it does or nothing is known."""
    if declared is None or found in (HIDDEN, UNCLEAR, declared):
        return None
    return (
        f"{name} reads and writes as {found} memory, but its driver declares it {declared}: "
        "figures of this buffer are not those of its kind"
    )
