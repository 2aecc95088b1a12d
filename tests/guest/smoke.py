"""Runs inside a guest and shows that its devices are real: see README.md.

    python tests/guest/run.py --kernel 6.12 --kernel 7.3 -- python3 tests/guest/smoke.py

Every buffer is written through one mapping of its dma-buf and read back through
another. An exception is a failure; the last line says what was there.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import struct
from pathlib import Path

DMA_HEAP_ALLOC = 0xC0184800
DMA_BUF_SYNC = 0x40086200
UDMABUF_CREATE = 0x40187542
DRM_VERSION = 0xC0406400
CREATE_DUMB = 0xC02064B2
PRIME_HANDLE_TO_FD = 0xC00C642D

SIZE = 1 << 20
SYNC_RW, SYNC_END = 3, 4
DRIVERS = {"vgem", "virtio_gpu", "qxl"}
RENAMED = ({"bochs-drm", "bochs"}, {"cirrus", "cirrus-qemu"})


def sync(fd: int, flags: int) -> None:
    fcntl.ioctl(fd, DMA_BUF_SYNC, struct.pack("=Q", flags))


def verify(what: str, fd: int) -> None:
    """Bytes written inside one START/END pair are there in a second mapping."""
    pattern = os.urandom(4096) * (SIZE // 4096)
    with mmap.mmap(fd, SIZE) as first:
        sync(fd, SYNC_RW)
        first[:] = pattern
        sync(fd, SYNC_RW | SYNC_END)
    with mmap.mmap(fd, SIZE) as second:
        sync(fd, SYNC_RW)
        same = second[:] == pattern
        sync(fd, SYNC_RW | SYNC_END)
    os.close(fd)
    if not same:
        raise AssertionError(f"{what}: other bytes came back")
    print(f"{what}: {SIZE} bytes verified", flush=True)


def heap() -> int:
    with Path("/dev/dma_heap/system").open("rb") as device:
        request = bytearray(struct.pack("=QIIQ", SIZE, 0, os.O_RDWR | os.O_CLOEXEC, 0))
        fcntl.ioctl(device, DMA_HEAP_ALLOC, request)
    return int(struct.unpack("=QIIQ", request)[1])


def udmabuf() -> int:
    memory = os.memfd_create("smoke", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, SIZE)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    request = bytearray(struct.pack("=IIQQ", memory, 1, 0, SIZE))
    with Path("/dev/udmabuf").open("rb") as device:
        # Only a mutable argument makes ioctl() return the new descriptor.
        return int(fcntl.ioctl(device, UDMABUF_CREATE, request))


def driver(card: Path) -> str:
    """The name that DRM_IOCTL_VERSION gives, the only one that user space has."""
    name = ctypes.create_string_buffer(64)
    request = bytearray(64)
    struct.pack_into("=QQ", request, 16, 63, ctypes.addressof(name))
    with card.open("rb") as device:
        fcntl.ioctl(device, DRM_VERSION, request)
    return name.value.decode()


def dumb(card: Path) -> int:
    """A dumb buffer of SIZE bytes (1024 x 256 x 32 bits), exported read-write."""
    with card.open("r+b", buffering=0) as device:
        request = bytearray(struct.pack("=IIIIIIQ", 256, 1024, 32, 0, 0, 0, 0))
        fcntl.ioctl(device, CREATE_DUMB, request)
        handle = struct.unpack("=IIIIIIQ", request)[4]
        flags = os.O_CLOEXEC | os.O_RDWR
        export = bytearray(struct.pack("=IIi", handle, flags, -1))
        fcntl.ioctl(device, PRIME_HANDLE_TO_FD, export)
    return int(struct.unpack("=IIi", export)[2])


def main() -> None:
    verify("heap system", heap())
    verify("udmabuf", udmabuf())
    found = {}
    for card in sorted(Path("/dev/dri").glob("card*")):
        found[card.name] = driver(card)
        verify(f"{card.name} {found[card.name]}", dumb(card))
    names = set(found.values())
    if not (names >= DRIVERS and all(names & either for either in RENAMED)):
        raise AssertionError(f"drivers are missing: {found}")
    uptime = Path("/proc/uptime").read_text().split()[0]
    print(f"{platform.release()}: all devices work, up {uptime} s")


if __name__ == "__main__":
    main()
