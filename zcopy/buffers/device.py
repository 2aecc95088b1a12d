"""What the kinds of accelerators' drivers share: finding the node, saying why there is none, and asking for proof."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.buffers.identify import prove_drm
from zcopy.buffers.node import cannot_open, locks, opened
from zcopy.errors import MeasurementError, ZcopyError
from zcopy.model import Json
from zcopy.native import device as native
from zcopy.native import fds
from zcopy.native.calls import NativeError, failed, refused
from zcopy.native.device import Bo, DeviceSync
from zcopy.native.region import Region
from zcopy.units import size_text

if TYPE_CHECKING:
    from zcopy.host import Host
    from zcopy.host.devices import Device

UNCONFIRMED: Final = "asked for, not confirmed by the kernel"


class DeviceBuffer(Buffer):
    """A buffer object of one driver, exported by PRIME. A subclass is one way to ask that driver for memory."""

    capabilities = Capabilities(exportable=True, dmabuf=True)
    driver: ClassVar[str]  # the kernel module
    drm_name: ClassVar[str] = ""  # what DRM_IOCTL_VERSION calls it, where that is another name
    nodes: ClassVar[tuple[str, ...]]  # the classes of devices that have its nodes, best first
    needs: ClassVar[str]  # the hardware and the kernel's option
    asked: ClassVar[str]  # the flags, as the proof shows them
    mapping: ClassVar[str]  # `declared`
    sync: ClassVar[type[DeviceSync] | None] = None

    def __init__(self, host: Host | None = None) -> None:
        """The kind over the driver's first node on `host` that can be opened; without a host, over none."""
        self._device = _first(host, self.driver, self.nodes) if host else None

    @property
    def node(self) -> str:
        return self._device.path if self._device else ""

    def missing(self, host: Host) -> str | None:
        if self._device is None:
            return self.absent(host)
        return cannot_open(host, self._device.kind, self.node, lambda: self.absent(host))

    def absent(self, host: Host) -> str:
        """Why the box has no node of the driver."""
        return f"this box has no device of {self.driver}: that takes {self.needs}"

    def declared(self, host: Host) -> str | None:
        return self.mapping

    def devices(self, host: Host) -> tuple[str, ...]:
        return locks(host, self.node)

    def drivers(self) -> tuple[str, ...]:
        return (self.driver,)

    def allocate(self, size: int, label: str) -> Region:
        try:
            with opened(self.node) as device:
                return self._allocate(device, self.room(size))
        except NativeError as error:
            raise self.not_opened(error) from error

    def _allocate(self, device: int, size: int) -> Region:
        try:
            return native.mapped(self.create(device, size), self.sync, dmabuf=self.capabilities.dmabuf)
        except NativeError as error:
            raise self.not_made(device, size, error) from error

    @abstractmethod
    def create(self, device: int, size: int) -> Bo:
        """The driver's call for `size` bytes. Raises NativeError."""

    def not_opened(self, error: NativeError) -> ZcopyError:
        """What the refusal to open the node means."""
        return refused(f"{self.name}: opening {self.node or 'its node'}", error)

    def not_made(self, device: int, size: int, error: NativeError) -> ZcopyError:
        """What the driver's refusal means."""
        return refused(f"{self.name}: {size_text(size)}", error)

    def proof(self, region: Region) -> Mapping[str, Json]:
        driver = self._owner(region)
        found = prove_drm(region.fd, region.size, self.name, self.driver)
        return {**found, "driver": driver, "asked": f"{self.asked}: {UNCONFIRMED}"}

    def _owner(self, region: Region) -> str:
        """The DRM driver of the node, which must be ours and know the buffer."""
        try:
            with opened(self.node) as device:
                driver, ours = fds.drm_driver(device), native.owns(device, region.fd)
        except NativeError as error:
            raise failed(f"{self.name}: asking the device for its buffer", error) from error
        if driver != (self.drm_name or self.driver):
            raise MeasurementError(f"{self.name}: {self.node} belongs to the driver {driver}")
        if not ours:
            raise MeasurementError(f"{self.name}: the device does not know this buffer as its own")
        return driver


def _first(host: Host, driver: str, nodes: tuple[str, ...]) -> Device | None:
    there = [each for kind in nodes for each in host.of_kind(kind) if each.module_guess == driver]
    return next((each for each in there if each.usable), there[0] if there else None)
