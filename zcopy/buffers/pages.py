"""Pages of 2 MiB: the pool that hugetlb memory comes from, and what is really mapped by them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zcopy.errors import MeasurementError
from zcopy.native.calls import failed
from zcopy.native.region import Region
from zcopy.units import MIB, size_text

if TYPE_CHECKING:
    from zcopy.host import Host

HUGE: Final = 2 * MIB
_POOL: Final = "free pages in the 2 MiB hugetlb pool"
# The fields of /proc/PID/smaps that count memory mapped by 2 MiB entries: of anonymous memory, shmem, and files.
_BY_2M: Final = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped")


def pool_left(host: Host) -> tuple[int, str]:
    """Bytes that the pool has left, and its name: a mapping beyond it is refused, a touch beyond it is SIGBUS."""
    pools = [pool for pool in host.pools() if pool.size == HUGE]
    return sum((pool.available + pool.overcommit) * pool.size for pool in pools), _POOL


def pool_lack(host: Host) -> str | None:
    """Why nothing can come from the pool, with what would help; None where something can."""
    if pool_left(host)[0]:
        return None
    return "the pool of 2 MiB huge pages is empty: as root, sysctl vm.nr_hugepages=N"


def in_huge_pages(region: Region) -> Region:
    """The same region, populated, in 2 MiB pages where the kernel can; closed where that fails. Raises OSError.

    Asked for before the first touch, and gathered afterwards where memory was in pieces.
    """
    try:
        region.advise_huge()
        region.populate()
        if mapped_huge(region) < region.size:
            region.collapse()
    except OSError:
        region.close()
        raise
    return region


def require_huge(region: Region, label: str) -> int:
    """The bytes of a region that are mapped by 2 MiB entries: all of them, or MeasurementError."""
    huge = _least_by_2m(region, _asked(region, label))
    if huge < region.size:
        raise MeasurementError(
            f"{label}: only {size_text(huge)} of {size_text(region.size)} are in 2 MiB pages"
        )
    return huge


def require_pages(region: Region, size: int, label: str) -> int:
    """The size of a region's pages in bytes: `size`, or MeasurementError."""
    page = _asked(region, label).get("KernelPageSize", 0)
    if page != size:
        raise MeasurementError(f"{label}: the kernel gives it pages of {size_text(page)}")
    return page


def mapped_huge(region: Region) -> int:
    """Bytes of the region that are mapped by 2 MiB entries here, at least. Raises OSError."""
    return _least_by_2m(region, smaps(region))


def _least_by_2m(region: Region, fields: Mapping[str, int]) -> int:
    """What is not huge in the mapping may all lie in the region: the kernel shows neighbours alike as one mapping."""
    huge, beside = sum(fields.get(name, 0) for name in _BY_2M), fields.get("Size", 0) - region.size
    return max(0, huge - max(0, beside))


def _asked(region: Region, label: str) -> Mapping[str, int]:
    try:
        return smaps(region)
    except OSError as error:
        raise failed(f"{label}: /proc/self/smaps", error) from error


def smaps(region: Region) -> Mapping[str, int]:
    """The fields of /proc/self/smaps that are in kB, in bytes, of the mapping that holds the region. Raises OSError."""
    within, found = False, dict[str, int]()
    with Path("/proc/self/smaps").open() as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if " " in key:  # the head of a mapping: ADDRESS-ADDRESS rw-p …
                within = _holds(key, region)
            elif within and value.endswith(" kB\n"):
                found[key] = int(value.split()[0]) << 10
    return found


def _holds(head: str, region: Region) -> bool:
    first, end = (int(each, 16) for each in head.split(" ", 1)[0].split("-"))
    return first <= region.address < end
