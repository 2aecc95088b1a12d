"""A newc cpio archive, the format of an initramfs (see cpio(5))."""

from collections.abc import Mapping
from pathlib import PurePosixPath

DIRECTORY = 0o040755
PROGRAM = 0o100755


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def entry(name: str, mode: int, data: bytes, inode: int) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if mode == DIRECTORY else 1
    # inode mode uid gid nlink mtime size, device and rdevice, name size, checksum
    fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return padded(header + encoded) + padded(data)


def folders(names: Mapping[str, bytes]) -> list[str]:
    """Every parent folder, parents first: the kernel does not make them."""
    parents = {str(parent) for name in names for parent in PurePosixPath(name).parents if str(parent) != "."}
    return sorted(parents)


def archive(files: Mapping[str, bytes]) -> bytes:
    """All files, executable; all that an initrd of scripts and modules needs."""
    entries = [(name, DIRECTORY, b"") for name in folders(files)]
    entries += [(name, PROGRAM, data) for name, data in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    packed = (entry(*one, inode) for inode, one in enumerate(entries, start=1))
    return b"".join(packed)
