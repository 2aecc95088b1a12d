"""dma-heaps: buffers straight from a kernel heap, one kind for each (Documentation/userspace-api/dma-buf-heaps)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.buffers.identify import prove_dmabuf
from zcopy.buffers.node import cannot_open, how_to_load, opened
from zcopy.model import Json
from zcopy.native import fds
from zcopy.native.calls import NativeError, refused
from zcopy.native.region import Region
from zcopy.units import size_text

if TYPE_CHECKING:
    from zcopy.host import Host

PREFIX: Final = "dma-heap:"
_USUAL: Final = "system"  # the heap of ordinary memory, which a kernel with heaps has
_MODULE: Final = ("system_heap", "CONFIG_DMABUF_HEAPS_SYSTEM")


class DmaHeap(Buffer):
    summary = "dma-buf from a kernel heap"
    # The heap fills its pages when it allocates and maps them all at mmap: there is nothing left to populate.
    capabilities = Capabilities(exportable=True, dmabuf=True)

    def __init__(self, heap: str) -> None:
        self.heap = heap
        self.name = PREFIX + heap
        self._node = f"/dev/dma_heap/{heap}"

    def missing(self, host: Host) -> str | None:
        return cannot_open(host, "dma-heap", self._node, lambda: self._absent(host))

    def declared(self, host: Host) -> str | None:
        # Heaps of vendors may map as they like (system-uncached of Rockchip): of those nothing is known.
        return "cached" if self.heap == _USUAL else None

    def drivers(self) -> tuple[str, ...]:
        return (f"{self.heap}_heap",)

    def allocate(self, size: int, label: str) -> Region:
        size = self.room(size)
        try:
            with opened(self._node) as heap:
                return Region.owning(fds.dma_heap(heap, size), size, dmabuf=True)
        except NativeError as error:
            raise refused(f"{self.name}: {size_text(size)}", error) from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        return prove_dmabuf(region.fd, region.size, self.name, self.heap)

    def _absent(self, host: Host) -> str:
        if host.of_kind("dma-heap"):
            return f"this kernel offers no {self._node}"
        return f"this box has no /dev/dma_heap: {how_to_load(host, *_MODULE)}"


def heaps(host: Host) -> list[DmaHeap]:
    """A kind for each heap of this box; where there is none, the usual one, which says why."""
    return [DmaHeap(device.name) for device in host.of_kind("dma-heap")] or [DmaHeap(_USUAL)]
