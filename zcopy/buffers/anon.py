"""Anonymous memory, in pages of 4 KiB or 2 MiB. It has no descriptor, so nobody else can be handed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.buffers.pages import HUGE, in_huge_pages, pool_lack, pool_left, require_huge, require_pages
from zcopy.errors import MeasurementError
from zcopy.model import Json
from zcopy.native.calls import refused
from zcopy.native.region import Region
from zcopy.units import size_text

if TYPE_CHECKING:
    from zcopy.host import Host


class Anon(Buffer):
    name = "anon"
    summary = "anonymous memory (no descriptor: cannot be handed over)"
    capabilities = Capabilities(exportable=False, populates=True)
    _hint = ""

    def declared(self, host: Host) -> str | None:
        return "cached"

    def allocate(self, size: int, label: str) -> Region:
        try:
            return self._map(self.room(size))
        except OSError as error:
            raise refused(f"{self.name}: {size_text(size)}", error, self._hint) from error

    def _map(self, size: int) -> Region:
        return Region(-1, size)

    def proof(self, region: Region) -> Mapping[str, Json]:
        if region.fd >= 0:
            raise MeasurementError(
                f"{self.name}: the kernel does not confirm this label: the memory has a descriptor"
            )
        return {"link": None}


class AnonThp(Anon):
    """The pages are there and huge when `allocate` returns."""

    name = "anon-thp"
    summary = "anonymous memory, populated, in transparent 2 MiB pages (no descriptor)"
    capabilities = Capabilities(exportable=False)
    granule = HUGE

    def _map(self, size: int) -> Region:
        return in_huge_pages(Region(-1, size))

    def proof(self, region: Region) -> Mapping[str, Json]:
        return {**super().proof(region), "huge_bytes": require_huge(region, self.name)}


class Hugetlb(Anon):
    name = "hugetlb"
    summary = "anonymous memory from the hugetlb pool, 2 MiB pages (no descriptor)"
    granule = HUGE
    _hint = "see vm.nr_hugepages"

    def missing(self, host: Host) -> str | None:
        return pool_lack(host)

    def limit(self, host: Host) -> tuple[int, str] | None:
        return pool_left(host)

    def _map(self, size: int) -> Region:
        return Region(-1, size, hugetlb=True)

    def proof(self, region: Region) -> Mapping[str, Json]:
        return {**super().proof(region), "page_bytes": require_pages(region, HUGE, self.name)}
