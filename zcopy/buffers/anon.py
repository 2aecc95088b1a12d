"""Anonymous memory: what malloc gives. It has no descriptor, so nobody else can be handed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.errors import MeasurementError
from zcopy.model import Json
from zcopy.native.calls import NativeError, refused
from zcopy.native.region import Region

if TYPE_CHECKING:
    from zcopy.host import Host


class Anon(Buffer):
    name = "anon"
    summary = "anonymous memory (no descriptor: cannot be handed over)"
    capabilities = Capabilities(exportable=False, populates=True)

    def declared(self, host: Host) -> str | None:
        return "cached"

    def allocate(self, size: int, label: str) -> Region:
        try:
            return Region(-1, self.room(size))
        except NativeError as error:
            raise refused(f"anon: {size} bytes", error) from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        if region.fd >= 0:
            raise MeasurementError(
                "anon: the kernel does not confirm this label: the memory has a descriptor"
            )
        return {"link": None}
