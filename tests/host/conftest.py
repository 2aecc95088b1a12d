"""Builds the machines of tests/hosts into temporary folders."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zcopy.host import Host

HOSTS = Path(__file__).parent.parent / "hosts"
_RANGE = re.compile(r"\{(\d+)-(\d+)\}")


def _expanded(line: str) -> Iterator[str]:
    match = _RANGE.search(line)
    if match is None:
        yield line
        return
    for number in range(int(match[1]), int(match[2]) + 1):
        yield from _expanded(line.replace(match[0], str(number)))


def _file(root: Path, path: str, content: bytes) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def _entry(root: Path, line: str) -> None:
    path, operator, value = re.fullmatch(r"(\S+?)(/$| -> | = | : | mode )(.*)", line).groups()  # type: ignore[union-attr]
    if operator == "/":
        (root / path).mkdir(parents=True)
    elif operator == " -> ":
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(value)
    elif operator == " : ":
        _file(root, path, bytes.fromhex(value))
    elif operator == " mode ":
        _file(root, path, b"").chmod(int(value, 8))
    else:
        _file(root, path, f"{value}\n".encode())


def build(text: str, root: Path) -> Path:
    """Make the files of a box below `root`."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("== "):
            body = list(iter(lambda: next(lines), "=="))
            _file(root, line[3:], "".join(f"{each}\n" for each in body).encode())
        elif line and not line.startswith("#"):
            for each in _expanded(line):
                _entry(root, each)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    """A box from its description."""
    return lambda text: build(text, tmp_path / "box")


@pytest.fixture
def box(tmp_path: Path) -> Callable[[str], Path]:
    """A machine of tests/hosts by name."""
    return lambda name: build((HOSTS / f"{name}.box").read_text(), tmp_path / name)


@pytest.fixture
def host(box: Callable[[str], Path]) -> Callable[[str], Host]:
    """The Host of a machine of tests/hosts."""
    return lambda name: Host.read(box(name))


@pytest.fixture
def module_image() -> Callable[[bytes], bytes]:
    """The smallest ELF64 file with a build-id note."""

    def image(build_id: bytes) -> bytes:
        notes = struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id
        header = bytearray(64)
        header[:7] = b"\x7fELF\x02\x01\x01"
        struct.pack_into("<Q", header, 40, 64)
        struct.pack_into("<HHH", header, 58, 64, 2, 0)
        section = struct.pack("<IIQQQQIIQQ", 0, 7, 2, 0, 192, len(notes), 0, 0, 4, 0)
        return bytes(header) + bytes(64) + section + notes

    return image
