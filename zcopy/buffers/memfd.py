"""memfd: shared memory by descriptor on 4 KiB pages, with 2 MiB pages where they can be had, or from hugetlb."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.buffers.identify import prove_memfd
from zcopy.errors import MeasurementError
from zcopy.model import Json
from zcopy.native import fds
from zcopy.native.calls import NativeError, failed, refused
from zcopy.native.region import Region
from zcopy.units import MIB, size_text

if TYPE_CHECKING:
    from zcopy.host import Host

HUGE: Final = 2 * MIB


def sealed(label: str, size: int, *, huge: bool = False) -> Region:
    """A mapped, sealed memfd of exactly `size` bytes. Raises NativeError."""
    return Region.owning(fds.memfd(label, size, huge=huge), size)


class Memfd(Buffer):
    name = "memfd"
    summary = "sealed memfd on base pages"
    capabilities = Capabilities(exportable=True, sparse=True, populates=True)

    def declared(self, host: Host) -> str | None:
        return "cached"

    def allocate(self, size: int, label: str) -> Region:
        try:
            return sealed(label, self.room(size))
        except NativeError as error:
            raise refused(f"{self.name}: {size_text(size)}", error) from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        return prove_memfd(region.fd, region.size, self.name, fds.TMPFS_MAGIC)


class MemfdThp(Memfd):
    """The pages are there and huge when `allocate` returns: by the shmem policy, else gathered by MADV_COLLAPSE."""

    name = "memfd-thp"
    summary = "sealed memfd, populated, in 2 MiB pages"
    capabilities = Capabilities(exportable=True)
    granule = HUGE

    def allocate(self, size: int, label: str) -> Region:
        region = super().allocate(size, label)
        try:
            region.advise_huge()
            region.populate()
            if mapped_huge(region) < region.size:
                region.collapse()
        except OSError as error:
            region.close()
            raise refused(f"{self.name}: {size_text(size)} in 2 MiB pages", error) from error
        return region

    def proof(self, region: Region) -> Mapping[str, Json]:
        try:
            huge = mapped_huge(region)
        except OSError as error:
            raise failed(f"{self.name}: /proc/self/smaps", error) from error
        if huge < region.size:
            raise MeasurementError(
                f"{self.name}: only {size_text(huge)} of {size_text(region.size)} are in 2 MiB pages"
            )
        return {**super().proof(region), "huge_bytes": huge}


class MemfdHuge(Memfd):
    name = "memfd-huge"
    summary = "sealed memfd from the hugetlb pool, 2 MiB pages"
    capabilities = Capabilities(exportable=True, populates=True)
    granule = HUGE

    def missing(self, host: Host) -> str | None:
        if self.limit(host) != (0, _POOL):
            return None
        return "the pool of 2 MiB huge pages is empty: as root, sysctl vm.nr_hugepages=N"

    def limit(self, host: Host) -> tuple[int, str] | None:
        """What the pool has left: a mapping beyond it is refused, a touch beyond it is SIGBUS."""
        pools = [pool for pool in host.pools() if pool.size == HUGE]
        return sum((pool.available + pool.overcommit) * pool.size for pool in pools), _POOL

    def allocate(self, size: int, label: str) -> Region:
        try:
            return sealed(label, self.room(size), huge=True)
        except NativeError as error:
            raise refused(f"{self.name}: {size_text(size)}", error, "see vm.nr_hugepages") from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        return prove_memfd(region.fd, region.size, self.name, fds.HUGETLBFS_MAGIC)


_POOL: Final = "free pages in the 2 MiB hugetlb pool"


def mapped_huge(region: Region) -> int:
    """Bytes of the region that are mapped by 2 MiB entries here, from /proc/self/smaps."""
    first, within, total = f"{region.address:x}-", False, 0
    with Path("/proc/self/smaps").open() as lines:
        for line in lines:
            if "-" in line.split(" ", 1)[0] and not line.startswith(("Vm", "THP")):
                within = line.startswith(first)
            elif within and line.startswith(("ShmemPmdMapped:", "FilePmdMapped:")):
                total += int(line.split()[1]) << 10
    return total
