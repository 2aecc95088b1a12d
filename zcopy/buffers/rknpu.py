"""Memory of Rockchip's vendor NPU driver in its DRM flavour (rknpu_ioctl.h of 0.9.8, rknpu_gem.c)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from zcopy.buffers.base import Capabilities
from zcopy.buffers.device import DeviceBuffer
from zcopy.buffers.node import opened
from zcopy.errors import MeasurementError, ZcopyError
from zcopy.model import Json
from zcopy.native import device as native
from zcopy.native.calls import NativeError, refused
from zcopy.native.device import Bo, RknpuSync
from zcopy.native.region import Region
from zcopy.units import size_text

if TYPE_CHECKING:
    from zcopy.host import Host

_NON_CONTIGUOUS: Final = 0x001
_CACHEABLE: Final = 0x002
_WRITE_COMBINE: Final = 0x004
_TRY_SRAM: Final = 0x100
_LIMIT_IOVA_ALIGNMENT: Final = 0x400  # without it, freed small buffers strand address space
_PLAIN: Final = _NON_CONTIGUOUS | _LIMIT_IOVA_ALIGNMENT


class Rknpu(DeviceBuffer):
    driver = "rknpu"
    nodes = ("drm-render", "drm-card")
    needs = "a Rockchip NPU and the vendor's kernel with CONFIG_ROCKCHIP_RKNPU_DRM_GEM"
    flags: ClassVar[int]

    def absent(self, host: Host) -> str:
        if host.of_kind("rknpu"):
            option = "CONFIG_ROCKCHIP_RKNPU_DRM_GEM"
            return f"/dev/rknpu is the driver's DMA_HEAP flavour; zcopy needs a kernel with {option}"
        return super().absent(host)

    def create(self, device: int, size: int) -> Bo:
        return native.rknpu(device, size, self.flags)

    def not_made(self, device: int, size: int, error: NativeError) -> ZcopyError:
        if error.name != "EFAULT":
            return super().not_made(device, size, error)
        hint = (
            f"the NPU's address window (IOVA) is exhausted, driver {_version(device)}; it is shared by all "
            "processes, and drivers before 0.9.7 lose parts of it until a reboot"
        )
        return refused(f"{self.name}: {size_text(size)}", error, hint)


class RknpuCacheable(Rknpu):
    name = "rknpu:cacheable"
    summary = "Rockchip NPU's memory (vendor driver), flags 0x403: mapped cached, MEM_SYNC for ranges"
    flags = _PLAIN | _CACHEABLE
    asked = "flags 0x403, cached"
    mapping = "cached"
    sync = RknpuSync


class RknpuWc(Rknpu):
    name = "rknpu:wc"
    summary = "Rockchip NPU's memory (vendor driver), flags 0x405: mapped write-combine"
    flags = _PLAIN | _WRITE_COMBINE
    asked = "flags 0x405, write-combine"
    mapping = "write-combine"


class RknpuDevice(Rknpu):
    name = "rknpu:device"
    summary = "Rockchip NPU's memory (vendor driver), flags 0x401: mapped uncached, on arm64 Device memory"
    capabilities = Capabilities(exportable=True, dmabuf=True, strict=True)
    flags = _PLAIN
    asked = "flags 0x401, uncached"
    mapping = "uncached"


class RknpuSram(Rknpu):
    name = "rknpu:sram"
    summary = "Rockchip NPU's SRAM (vendor driver), flags 0x503: mapped cached, MEM_SYNC for ranges"
    flags = _PLAIN | _CACHEABLE | _TRY_SRAM
    asked = "flags 0x503, cached"
    mapping = "cached"
    sync = RknpuSync

    def __init__(self, host: Host | None = None) -> None:
        super().__init__(host)
        self._in_sram: dict[int, int] = {}  # inode of a dma-buf → what the driver said of it when it was made

    def missing(self, host: Host) -> str | None:
        if lack := super().missing(host):
            return lack
        try:
            return None if self._free() else "the driver reports no free SRAM for the NPU"
        except NativeError:
            return None  # what the driver says to the attempt tells more

    def limit(self, host: Host) -> tuple[int, str] | None:
        try:
            return (self._free(), "free SRAM of the NPU") if super().missing(host) is None else None
        except NativeError:
            return None

    def create(self, device: int, size: int) -> Bo:
        bo = super().create(device, size)
        self._in_sram[os.fstat(bo.fd).st_ino] = bo.sram
        return bo

    def proof(self, region: Region) -> Mapping[str, Json]:
        found = super().proof(region)
        part = self._in_sram.get(os.fstat(region.fd).st_ino, 0)
        if part < region.size:
            raise MeasurementError(
                f"{self.name}: only {size_text(part)} of {size_text(region.size)} are in SRAM"
            )
        return {**found, "sram_bytes": part}

    def _free(self) -> int:
        with opened(self.node) as device:
            return native.rknpu_free_sram(device)


def _version(device: int) -> str:
    try:
        return native.rknpu_version(device)
    except NativeError:
        return "of unknown version"


def buffers(host: Host | None) -> tuple[Rknpu, ...]:
    """Every way to ask the driver, whether the box has it or not."""
    return tuple(kind(host) for kind in (RknpuCacheable, RknpuWc, RknpuDevice, RknpuSram))
