"""DRM dumb buffers of any card, exported by PRIME as a dma-buf (Documentation/gpu/drm-mm)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.buffers.identify import prove_drm
from zcopy.buffers.node import cannot_open, how_to_load, locks, opened
from zcopy.errors import MeasurementError
from zcopy.model import Json
from zcopy.native import fds
from zcopy.native.calls import NativeError, failed, refused
from zcopy.native.region import Region
from zcopy.units import size_text

if TYPE_CHECKING:
    from zcopy.host import Host

PREFIX: Final = "drm:"
_FIRST: Final = "card0"
_VGEM: Final = ("vgem", "CONFIG_DRM_VGEM")  # a card that needs no hardware
# How dumb buffers are mapped, by module, where page tables were looked at (Linux 6.12 and 7.3).
_MAPS: Final = {
    "vgem": "write-combine", "virtio_gpu": "cached", "cirrus": "cached", "cirrus_qemu": "cached", "qxl": "cached",
    "bochs": "cached",
}  # fmt: skip


class DrmDumb(Buffer):
    summary = "DRM dumb buffer of a card, exported by PRIME"
    capabilities = Capabilities(exportable=True, dmabuf=True)

    def __init__(self, card: str, driver: str | None = None) -> None:
        self.name = PREFIX + card
        self._node = f"/dev/dri/{card}"
        self._driver = driver

    def missing(self, host: Host) -> str | None:
        return cannot_open(host, "drm-card", self._node, lambda: self._absent(host))

    def declared(self, host: Host) -> str | None:
        return _MAPS.get(self._driver or "")

    def devices(self, host: Host) -> tuple[str, ...]:
        return locks(host, self._node)

    def drivers(self) -> tuple[str, ...]:
        return (self._driver,) if self._driver else ()

    def allocate(self, size: int, label: str) -> Region:
        try:
            with opened(self._node) as card:
                fd, real = fds.drm_dumb(card, self.room(size))
                return Region.owning(fd, real, dmabuf=True)
        except NativeError as error:
            raise refused(f"{self.name}: dumb buffer of {size_text(size)}", error) from error

    def proof(self, region: Region) -> Mapping[str, Json]:
        try:
            with opened(self._node) as card:
                driver, ours = fds.drm_driver(card), fds.drm_owns(card, region.fd)
        except NativeError as error:
            raise failed(f"{self.name}: asking the card for its buffer", error) from error
        if not ours:
            raise MeasurementError(f"{self.name}: the card does not know this buffer as its own")
        return {**prove_drm(region.fd, region.size, self.name, driver), "driver": driver}

    def _absent(self, host: Host) -> str:
        if host.of_kind("drm-card"):
            return f"this box has no {self._node}"
        why = "no driver of a GPU or a display is loaded; without such hardware vgem makes a card"
        return f"this box has no /dev/dri: {why}: {how_to_load(host, *_VGEM)}"


def cards(host: Host) -> list[DrmDumb]:
    """A kind for each card of this box; where there is none, the first there would be, which says why."""
    here = [DrmDumb(device.name, device.module_guess) for device in host.of_kind("drm-card")]
    return here or [DrmDumb(_FIRST)]
