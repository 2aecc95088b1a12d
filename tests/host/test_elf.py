import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.host.elf import elf_build_id, note_build_id

ID = bytes(range(20))


def note(kind: int, name: bytes, description: bytes) -> bytes:
    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    return struct.pack("<III", len(name), len(description), kind) + padded(name) + padded(description)


BUILD_ID = note(3, b"GNU\0", ID)


def test_the_36_bytes_of_a_module() -> None:
    assert len(BUILD_ID) == 36
    assert note_build_id(BUILD_ID) == ID.hex()


def test_other_notes_come_first() -> None:
    others = note(6, b"Xen\0", b"linux") + note(3, b"Linux\0", b"abc") + note(1, b"GNU\0", b"\0" * 16)
    assert note_build_id(others + BUILD_ID) == ID.hex()


@pytest.mark.parametrize("length", range(36))
def test_a_cut_note_is_none(length: int) -> None:
    assert note_build_id(BUILD_ID[:length]) is None


@pytest.mark.parametrize(
    "notes",
    [
        b"",
        struct.pack("<III", 4, 0xFFFFFFFF, 3) + b"GNU\0" + ID,
        struct.pack("<III", 0xFFFFFFFF, 20, 3) + b"GNU\0" + ID,
        note(3, b"GNU\0", b""),
        note(3, b"GNU\0", b"x" * 65),
        note(3, b"GNUx", ID),
    ],
)
def test_broken_notes_are_none(notes: bytes) -> None:
    assert note_build_id(notes) is None


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    note_build_id(data)
    elf_build_id(data)
    elf_build_id(b"\x7fELF\x02\x01" + data)


def test_a_real_elf_file() -> None:
    """The interpreter's own libc: its build-id as the file has it in a note section."""
    maps = Path("/proc/self/maps").read_text()
    libc = next((line.split()[-1] for line in maps.splitlines() if "libc.so" in line), None)
    if libc is None:
        pytest.skip("this Python is not linked against a libc.so")
    image = Path(libc).read_bytes()
    if BUILD_ID[:16] not in image:
        pytest.skip("this libc has no build-id")
    found = elf_build_id(image)
    position = image.index(BUILD_ID[:16]) + 16
    assert found == image[position : position + 20].hex()


def test_section_table_outside_of_the_file() -> None:
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 40, 1 << 63)
    struct.pack_into("<HH", header, 58, 64, 0xFFFF)
    assert elf_build_id(bytes(header)) is None
