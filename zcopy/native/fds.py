"""New descriptors of each kind of memory, and what the kernel says of a descriptor."""

from __future__ import annotations

from typing import Final

from zcopy.native._zc import ffi, lib
from zcopy.native.calls import check

TMPFS_MAGIC: Final = 0x01021994  # linux/magic.h
HUGETLBFS_MAGIC: Final = 0x958458F6


def memfd(label: str, size: int, *, huge: bool = False) -> int:
    """A memfd of `size` bytes, sealed against shrinking and growing. Raises NativeError."""
    kind = lib.ZC_MEMFD_HUGE_2M if huge else lib.ZC_MEMFD_PLAIN
    return check(lib.zc_memfd_new(label.encode()[:200], size, kind))


def udmabuf(device: int, memory: int, size: int) -> int:
    """A dma-buf over a sealed memfd; `device` is an open /dev/udmabuf. Raises NativeError."""
    return check(lib.zc_udmabuf_new(device, memory, size))


def dma_heap(heap: int, size: int) -> int:
    """A dma-buf of an open /dev/dma_heap node. The heap checks no sizes: the caller has. Raises NativeError."""
    return check(lib.zc_dmaheap_new(heap, size))


def drm_dumb(card: int, size: int) -> tuple[int, int]:
    """A dumb buffer of an open card as a read-write dma-buf, and its real size in bytes. Raises NativeError."""
    got = ffi.new("uint64_t *")
    fd = check(lib.zc_drm_dumb_new(card, size, got))
    return fd, int(got[0])


def drm_driver(card: int) -> str:
    """The DRM driver behind an open card (DRM_IOCTL_VERSION). Raises NativeError."""
    name = ffi.new("zc_drm_name *")
    check(lib.zc_drm_version(card, name))
    text: bytes = ffi.string(name.driver)
    return text.decode("utf-8", "replace")


def drm_owns(card: int, dmabuf: int) -> bool:
    """Whether a dma-buf comes from this card, which maps its own but no import, under the inode of its export."""
    return bool(check(lib.zc_drm_same_object(card, dmabuf)))


def seals(fd: int) -> int:
    """F_GET_SEALS. Raises NativeError (EINVAL where the file cannot be sealed)."""
    return check(lib.zc_seals(fd))


def filesystem_type(fd: int) -> int:
    """f_type of fstatfs(2). Raises NativeError."""
    return check(lib.zc_sys_fs_type(fd))
