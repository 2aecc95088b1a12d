"""udmabuf: a dma-buf made from the pages of a sealed memfd (linux/udmabuf.h, drivers/dma-buf/udmabuf.c)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.buffers.identify import prove_dmabuf
from zcopy.buffers.node import cannot_open, how_to_load, opened
from zcopy.model import Json
from zcopy.native import fds
from zcopy.native.calls import NativeError, refused
from zcopy.native.region import Region
from zcopy.units import MIB, size_text

if TYPE_CHECKING:
    from zcopy.host import Host

_NODE: Final = "/dev/udmabuf"
_MODULE: Final = ("udmabuf", "CONFIG_UDMABUF")


class Udmabuf(Buffer):
    name = "udmabuf"
    summary = "dma-buf over a sealed memfd"
    capabilities = Capabilities(exportable=True, dmabuf=True)

    def declared(self, host: Host) -> str | None:
        return "cached"

    def missing(self, host: Host) -> str | None:
        return cannot_open(
            host, "udmabuf", _NODE, lambda: f"this box has no {_NODE}: {how_to_load(host, *_MODULE)}"
        )

    def limit(self, host: Host) -> tuple[int, str] | None:
        value = host.parameter("udmabuf", "size_limit_mb") or ""
        return (int(value) * MIB, f"udmabuf's size_limit_mb is {value}") if value.isdecimal() else None

    def drivers(self) -> tuple[str, ...]:
        return ("udmabuf",)

    def allocate(self, size: int, label: str) -> Region:
        size = self.room(size)
        try:
            with opened(_NODE) as device:
                return Region.owning(_new(device, label, size), size, dmabuf=True)
        except NativeError as error:
            # EINVAL is udmabuf's word for every broken rule; of ours only the size can break one.
            hint = "see /sys/module/udmabuf/parameters/size_limit_mb" if error.name == "EINVAL" else ""
            raise refused(f"udmabuf: {size_text(size)}", error, hint) from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        return prove_dmabuf(region.fd, region.size, self.name, "udmabuf")


def _new(device: int, label: str, size: int) -> int:
    """The dma-buf keeps the pages: the memfd behind it is not needed any more."""
    memory = fds.memfd(label, size)
    try:
        return fds.udmabuf(device, memory, size)
    finally:
        os.close(memory)
