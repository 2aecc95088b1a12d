"""GEM buffers of AMD GPUs (drm/amdgpu_drm.h, amdgpu_object.c): system memory (GTT) and the GPU's own (VRAM)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from zcopy.buffers.base import Capabilities
from zcopy.buffers.device import DeviceBuffer
from zcopy.native import device as native
from zcopy.native.device import Bo

if TYPE_CHECKING:
    from zcopy.host import Host

_GTT: Final = 2  # AMDGPU_GEM_DOMAIN_*
_VRAM: Final = 4
_CPU_ACCESS_REQUIRED: Final = 1  # AMDGPU_GEM_CREATE_*
_CPU_GTT_USWC: Final = 4
_VRAM_CLEARED: Final = 8


class Amdgpu(DeviceBuffer):
    driver = "amdgpu"
    nodes = ("drm-render",)
    needs = "an AMD GPU and a kernel with CONFIG_DRM_AMDGPU"
    domain: ClassVar[int]
    flags: ClassVar[int]
    total: ClassVar[str]  # the fact of the card that says how much there is

    def limit(self, host: Host) -> tuple[int, str] | None:
        """All that the driver has of the domain."""
        if self._device is None:
            return None
        cards = (each for each in host.of_kind("drm-card") if each.location == self._device.location)
        sizes = (each.facts.get(self.total) for each in cards)
        size = next((size for size in sizes if isinstance(size, int)), None)
        return None if size is None else (size, f"the GPU's {self.total.partition('_')[0].upper()}")

    def create(self, device: int, size: int) -> Bo:
        return native.amdgpu(device, size, self.domain, self.flags)


class AmdgpuGtt(Amdgpu):
    name = "amdgpu:gtt"
    summary = "AMD GPU's buffer in system memory (GTT), flags 0x1: mapped cached"
    domain, flags, total = _GTT, _CPU_ACCESS_REQUIRED, "gtt_total_bytes"
    asked = "GTT, flags 0x1, cached"
    mapping = "cached"


class AmdgpuGttUswc(Amdgpu):
    name = "amdgpu:gtt-uswc"
    summary = "AMD GPU's buffer in system memory (GTT), flags 0x5 (CPU_GTT_USWC): mapped write-combine"
    domain, flags, total = _GTT, _CPU_ACCESS_REQUIRED | _CPU_GTT_USWC, "gtt_total_bytes"
    asked = "GTT, flags 0x5, write-combine"
    mapping = "write-combine"


class AmdgpuVram(Amdgpu):
    """Its CPU access is not bracketed: DMA_BUF_IOCTL_SYNC before reading would move the buffer to GTT."""

    name = "amdgpu:vram"
    summary = "AMD GPU's buffer in VRAM or its carve-out, flags 0x9: mapped write-combine"
    capabilities = Capabilities(exportable=True, dmabuf=False)
    domain, flags, total = _VRAM, _CPU_ACCESS_REQUIRED | _VRAM_CLEARED, "vram_total_bytes"
    asked = "VRAM, flags 0x9, write-combine"
    mapping = "write-combine"


def buffers(host: Host | None) -> tuple[Amdgpu, ...]:
    """Every domain, whether the box has it or not."""
    return tuple(kind(host) for kind in (AmdgpuGtt, AmdgpuGttUswc, AmdgpuVram))
