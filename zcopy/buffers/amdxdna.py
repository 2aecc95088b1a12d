"""Shared buffers of AMD's NPU (drm/amdxdna_accel.h, drivers/accel/amdxdna)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from zcopy.buffers.device import DeviceBuffer
from zcopy.errors import ZcopyError
from zcopy.native import device as native
from zcopy.native.calls import NativeError, refused
from zcopy.native.device import AmdxdnaSync, Bo

if TYPE_CHECKING:
    from zcopy.host import Host

# What opening the node says, by generation of kernel and driver, where the NPU gets no address space of the process.
_NO_SVA: Final = (errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSPC)


class Amdxdna(DeviceBuffer):
    name = "amdxdna"
    summary = "AMD NPU's SHARE buffer, no flags: mapped cached, SYNC_BO for ranges"
    driver = "amdxdna"
    drm_name = "amdxdna_accel_driver"
    nodes = ("accel",)
    needs = "an AMD Ryzen AI NPU and a kernel with CONFIG_DRM_ACCEL_AMDXDNA"
    asked = "type SHARE, cached"
    mapping = "cached"
    sync = AmdxdnaSync

    def create(self, device: int, size: int) -> Bo:
        return native.amdxdna(device, size)

    def not_opened(self, error: NativeError) -> ZcopyError:
        if error.errno not in _NO_SVA:
            return super().not_opened(error)
        hint = (
            "the NPU cannot share this process's address space (PASID/SVA): the IOMMU must be on, in the firmware's "
            "set-up and in the kernel's boot words"
        )
        return refused(f"{self.name}: opening {self.node}", error, hint)


def buffers(host: Host | None) -> tuple[Amdxdna, ...]:
    """The kind, whether the box has it or not."""
    return (Amdxdna(host),)
