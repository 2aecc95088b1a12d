"""memfd: shared memory by descriptor on 4 KiB pages, with 2 MiB pages where they can be had, or from hugetlb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.buffers.identify import prove_memfd
from zcopy.buffers.pages import HUGE, in_huge_pages, pool_lack, pool_left, require_huge
from zcopy.model import Json
from zcopy.native import fds
from zcopy.native.calls import NativeError, refused
from zcopy.native.region import Region
from zcopy.units import size_text

if TYPE_CHECKING:
    from zcopy.host import Host


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
        try:
            return in_huge_pages(super().allocate(size, label))
        except OSError as error:
            raise refused(f"{self.name}: {size_text(size)} in 2 MiB pages", error) from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        return {**super().proof(region), "huge_bytes": require_huge(region, self.name)}


class MemfdHuge(Memfd):
    name = "memfd-huge"
    summary = "sealed memfd from the hugetlb pool, 2 MiB pages"
    capabilities = Capabilities(exportable=True, populates=True)
    granule = HUGE

    def missing(self, host: Host) -> str | None:
        return pool_lack(host)

    def limit(self, host: Host) -> tuple[int, str] | None:
        return pool_left(host)

    def allocate(self, size: int, label: str) -> Region:
        try:
            return sealed(label, self.room(size), huge=True)
        except NativeError as error:
            raise refused(f"{self.name}: {size_text(size)}", error, "see vm.nr_hugepages") from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        return prove_memfd(region.fd, region.size, self.name, fds.HUGETLBFS_MAGIC)
