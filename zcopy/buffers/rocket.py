"""Buffers of the mainline driver of Rockchip's NPU (drm/rocket_accel.h, drivers/accel/rocket)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zcopy.buffers.device import DeviceBuffer
from zcopy.native import device as native
from zcopy.native.device import Bo, RocketSync

if TYPE_CHECKING:
    from zcopy.host import Host


class Rocket(DeviceBuffer):
    name = "rocket"
    summary = (
        "Rockchip NPU's buffer (mainline driver), no flags: mapped cached, PREP_BO and FINI_BO for all of it"
    )
    driver = "rocket"
    nodes = ("accel",)
    needs = "a Rockchip RK3588 NPU and a kernel with CONFIG_DRM_ACCEL_ROCKET"
    asked = "no flags, cached"
    mapping = "cached"
    sync = RocketSync

    def limit(self, host: Host) -> tuple[int, str] | None:
        return (1 << 32) - self.granule, "rocket's sizes have 32 bits"

    def create(self, device: int, size: int) -> Bo:
        return native.rocket(device, size)


def buffers(host: Host | None) -> tuple[Rocket, ...]:
    """The kind, whether the box has it or not."""
    return (Rocket(host),)
