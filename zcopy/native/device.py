"""Buffers that an accelerator's driver makes, and the cache maintenance of such drivers (native/buffers_device.h)."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from zcopy.native._zc import ffi, lib
from zcopy.native.calls import NativeError, check
from zcopy.native.maintenance import Maintenance
from zcopy.native.region import Region


class Bo:
    """A buffer object: its handle on the driver's open node `device`, and its dma-buf `fd`.

    The descriptor goes to whoever maps it; `close` ends the handle and, where `keep` was called, the node.
    """

    def __init__(self, device: int, raw: Any) -> None:
        """`device` stays the caller's until `keep`; `raw` is a filled ``zc_bo *``."""
        self._device, self._kept, self.raw = device, False, raw

    @property
    def fd(self) -> int:
        return int(self.raw.fd)

    @property
    def size(self) -> int:
        """Bytes, as asked for."""
        return int(self.raw.size)

    @property
    def sram(self) -> int:
        """Bytes that the driver says lie in SRAM (rknpu)."""
        return int(self.raw.sram)

    @property
    def device(self) -> int:
        return self._device

    def keep(self) -> None:
        """Lets the buffer outlive the caller's descriptor of the node. Raises OSError."""
        self._device = os.dup(self._device)
        self._kept = True

    def close(self) -> None:
        """Idempotent. The dma-buf keeps the memory."""
        lib.zc_bo_close(self._device, self.raw)
        if self._kept:
            os.close(self._device)
        self._kept = False


def owns(device: int, dmabuf: int) -> bool:
    """Whether the node takes the dma-buf and exports it under the same inode. Raises NativeError."""
    return bool(check(lib.zc_bo_same_object(device, dmabuf)))


def rknpu(device: int, size: int, flags: int) -> Bo:
    """A buffer of the vendor's NPU driver. Raises NativeError (EFAULT: the IOVA window is exhausted)."""
    raw = ffi.new("zc_bo *")
    check(lib.zc_rknpu_new(device, size, flags, raw))
    return Bo(device, raw)


def rknpu_version(device: int) -> str:
    """The driver's version, such as ``0.9.8``. Raises NativeError."""
    number = check(lib.zc_rknpu_ask(device, lib.ZC_RKNPU_DRV_VERSION))
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def rknpu_free_sram(device: int) -> int:
    """Bytes of SRAM that are free; 0 where the box gives the NPU none. Raises NativeError."""
    return check(lib.zc_rknpu_ask(device, lib.ZC_RKNPU_FREE_SRAM))


def amdxdna(device: int, size: int) -> Bo:
    """A SHARE buffer of AMD's NPU. Raises NativeError."""
    raw = ffi.new("zc_bo *")
    check(lib.zc_amdxdna_new(device, size, raw))
    return Bo(device, raw)


def amdgpu(device: int, size: int, domain: int, flags: int) -> Bo:
    """A GEM buffer of an AMD GPU, in one domain. Raises NativeError."""
    raw = ffi.new("zc_bo *")
    check(lib.zc_amdgpu_new(device, size, domain, flags, raw))
    return Bo(device, raw)


def rocket(device: int, size: int) -> Bo:
    """A buffer of the mainline NPU driver, of less than 4 GiB. Raises NativeError."""
    raw = ffi.new("zc_bo *")
    check(lib.zc_rocket_new(device, size, raw))
    return Bo(device, raw)


class DeviceSync(Maintenance):
    """A driver's own call for a buffer that it made. It keeps the node and the handle until it is closed.

    Before the CPU reads: from the device; after it has written: to the device. The rest needs nothing.
    """

    ranged: ClassVar[bool] = True

    def __init__(self, bo: Bo) -> None:
        """`bo` is kept, and closed by `close`."""
        bo.keep()
        self._bo = bo

    def sync(self, *, end: bool, read: bool, write: bool, offset: int, size: int) -> int:
        if not size or not (write if end else read):
            return 0
        return check(self._call(lib.ZC_TO_DEVICE if end else lib.ZC_FROM_DEVICE, offset, size))

    def close(self) -> None:
        self._bo.close()

    @abstractmethod
    def _call(self, direction: int, offset: int, size: int) -> int:
        """One call, in ns or -errno."""


class RknpuSync(DeviceSync):
    """RKNPU_MEM_SYNC, for the bytes it names; only of cacheable buffers."""

    def _call(self, direction: int, offset: int, size: int) -> int:
        return int(lib.zc_rknpu_sync(self._bo.device, self._bo.raw, direction, offset, size))


class AmdxdnaSync(DeviceSync):
    """SYNC_BO, for the bytes it names."""

    def _call(self, direction: int, offset: int, size: int) -> int:
        return int(lib.zc_amdxdna_sync(self._bo.device, self._bo.raw, direction, offset, size))


class RocketSync(DeviceSync):
    """PREP_BO, which waits at most 5 s for the device, and FINI_BO: always the whole buffer."""

    ranged = False

    def _call(self, direction: int, offset: int, size: int) -> int:
        return int(lib.zc_rocket_sync(self._bo.device, self._bo.raw, direction))


def mapped(bo: Bo, sync: Callable[[Bo], DeviceSync] | None, *, dmabuf: bool = True) -> Region:
    """The region of a new buffer, whose descriptor it owns; the handle lives as long as `sync` needs it.

    Raises NativeError, and then nothing of the buffer is left.
    """
    fd = bo.fd
    try:
        maintenance = sync(bo) if sync else None
    except OSError as error:
        bo.close()
        os.close(fd)
        raise NativeError(error.errno, error.strerror) from error
    try:
        return Region.owning(fd, bo.size, dmabuf=dmabuf, maintenance=maintenance)
    finally:
        if maintenance is None:
            bo.close()
