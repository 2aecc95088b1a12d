"""GNU build-ids out of ELF notes: they name the very binary that runs, where a version names only its source.

Format: the note section of the System V ABI (three 32-bit words, then name and description, each padded to
4 bytes) and ELF64 little endian, which is what every kernel zcopy runs on loads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

_NOTE: Final = struct.Struct("<III")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SHT_NOTE: Final = 7
_NT_GNU_BUILD_ID: Final = 3
_LONGEST_ID: Final = 64


def note_build_id(notes: bytes) -> str | None:
    """The build-id in a sequence of ELF notes, in hex; None when there is none or the notes are broken."""
    for kind, name, description in _notes(notes):
        if kind == _NT_GNU_BUILD_ID and name == b"GNU\0" and 0 < len(description) <= _LONGEST_ID:
            return description.hex()
    return None


def elf_build_id(image: bytes) -> str | None:
    """The build-id of an ELF64 file's note sections, in hex; None when it has none or is not such a file."""
    for kind, offset, size in _sections(image):
        if kind == _SHT_NOTE and offset + size <= len(image):
            found = note_build_id(image[offset : offset + size])
            if found is not None:
                return found
    return None


def _notes(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    position = 0
    while position + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, position)
        name = position + _NOTE.size
        description = name + _padded(name_size)
        if description + size > len(data):
            return
        yield kind, data[name : name + name_size], data[description : description + size]
        position = description + _padded(size)


def _padded(size: int) -> int:
    return (size + 3) & ~3


def _sections(image: bytes) -> Iterator[tuple[int, int, int]]:
    """(type, offset, size) of each section of an ELF64 little-endian image."""
    if len(image) < 64 or image[:6] != b"\x7fELF\x02\x01":
        return
    (table,) = struct.unpack_from("<Q", image, 40)
    entry, count = struct.unpack_from("<HH", image, 58)
    if entry < _SECTION.size:
        return
    for index in range(count):
        position = table + index * entry
        if position + _SECTION.size > len(image):
            return
        _, kind, _, _, offset, size, *_ = _SECTION.unpack_from(image, position)
        yield kind, offset, size
