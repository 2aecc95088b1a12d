"""The module file on disk: is it the binary that is loaded?

After an update the old driver keeps running until it is reloaded, and `modinfo` then describes the wrong one.
"""

from __future__ import annotations

from typing import Final

from zcopy.host.drivers import module_name
from zcopy.host.elf import elf_build_id
from zcopy.host.files import Root

_DEP_LIMIT: Final = 16 << 20
_FILE_LIMIT: Final = 64 << 20
_IMAGE_LIMIT: Final = 256 << 20  # amdgpu.ko with debug sections is tens of MiB


def installed_build_id(root: Root, release: str, module: str) -> str | None:
    """The build-id of the module's file for kernel `release`; None when there is no file that can be read.

    Takes tens of milliseconds for a large compressed module: it is for `doctor`, not for every run.
    """
    name = module_name(module)
    relative = _file_of(root, release, name) if name else None
    packed = root.raw(f"lib/modules/{release}/{relative}", _FILE_LIMIT) if relative else None
    image = _unpacked(packed) if packed else None
    return elf_build_id(image) if image else None


def has_module(root: Root, release: str | None, module: str) -> bool | None:
    """Whether the modules on disk for kernel `release` have this one; None where their list cannot be read."""
    listed = f"lib/modules/{release}/modules.dep"
    if release is None or not root.exists(listed):
        return None
    return _file_of(root, release, module) is not None


def _file_of(root: Root, release: str, module: str) -> str | None:
    """The path below lib/modules/RELEASE, as depmod lists it."""
    for line in root.lines(f"lib/modules/{release}/modules.dep", _DEP_LIMIT):
        path, colon, _ = line.partition(":")
        stem = path.rpartition("/")[2].partition(".ko")[0]
        if colon and stem.replace("-", "_") == module and ".." not in path:
            return path.lstrip("/")
    return None


def _unpacked(packed: bytes) -> bytes | None:
    """The ELF image; None for a compression Python cannot read (zstd) or a broken file."""
    if packed.startswith(b"\x7fELF"):
        return packed
    if packed.startswith(b"\xfd7zXZ\0"):
        return _unxz(packed)
    return _gunzip(packed) if packed.startswith(b"\x1f\x8b") else None


def _unxz(packed: bytes) -> bytes | None:
    import lzma

    try:
        return lzma.LZMADecompressor().decompress(packed, _IMAGE_LIMIT)
    except lzma.LZMAError:
        return None


def _gunzip(packed: bytes) -> bytes | None:
    import zlib

    try:
        return zlib.decompressobj(wbits=31).decompress(packed, _IMAGE_LIMIT)
    except zlib.error:
        return None
