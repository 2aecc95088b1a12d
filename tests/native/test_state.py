"""The sequence-state file: sizes to the byte, bytes against an independent writer, and what is refused."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from zcopy.native import _zc, rows
from zcopy.native.calls import NativeError
from zcopy.native.region import Region
from zcopy.native.rows import K, Layout, Tensor, V
from zcopy.native.state import State

lib = _zc.lib
F16, Q8_0 = 1, 8
MAGIC = 0x67677371


def tensors(shape: list[tuple[int, int]], n_cells: int, element: int = 0) -> tuple[list[Tensor], int]:
    """K and V rows of each layer back to back; with `element` V is transposed. Also the bytes of it all."""
    found, offset = [], 0
    for layer, (k, v) in enumerate(shape):
        found.append(Tensor(offset, k, 0, k, 0, layer, K))
        offset += n_cells * k
        turned = Tensor(offset, element, element * n_cells, v, element, layer, V)
        found.append(turned if element else Tensor(offset, v, 0, v, 0, layer, V))
        offset += n_cells * v
    return found, offset


@dataclass(frozen=True)
class File:
    """A request's source, its target, and the state that describes it."""

    source: Layout
    target: Layout
    types: tuple[int, int] = (F16, F16)
    rotation: tuple[int, int] = (0, 0)
    sequence: int = 0

    @staticmethod
    def of(
        shape: list[tuple[int, int]], cells: int, ctx: int, *, runs: list[tuple[int, int]] | None = None,
        element: int = 0, **more: tuple[int, int] | int,
    ) -> File:  # fmt: skip
        packed, size = tensors(shape, cells, element)
        spread, region = tensors(shape, ctx, element)
        source = Layout(packed, cells, size, [(0, cells)])
        return File(source, Layout(spread, ctx, region, runs or [(0, cells)]), **more)  # type: ignore[arg-type]

    @property
    def state(self) -> State:
        return State(self.types, self.rotation, self.sequence)

    def saved(self, path: Path, source: Region) -> bytes:
        with path.open("wb") as file:
            written = self.state.save(file.fileno(), source, self.source)
        assert written == path.stat().st_size
        return path.read_bytes()

    def restored(self, path: Path, to: Region) -> list[int]:
        """The positions."""
        pos = rows.positions(self.target.tokens)
        for i in range(self.target.tokens):
            pos[i] = -7
        read, ns = self.state.load(str(path), to, self.target, pos)
        assert read == path.stat().st_size
        assert ns > 0
        return list(pos)


def written_independently(file: File, source: bytes) -> bytes:
    """The format as its description says it, version 4, one sequence of text tokens."""
    layout, n = file.source, file.source.tokens
    turned = any(tensor.channel_stride for tensor in layout.tensors)
    out = [struct.pack("<III", MAGIC, 4, n + 4), struct.pack("<iII", -1, 1, n)]
    out += [struct.pack("<I", token) for token in range(n)]
    out += [struct.pack("<I", 0), struct.pack("<II", 1, n)]
    out += [struct.pack("<iIi", pos, 1, file.sequence) for pos in range(n)]
    out.append(struct.pack("<IIII", turned, len(layout.tensors) // 2, *file.rotation))
    for role in (K, V):
        for tensor in layout.tensors:
            if tensor.role != role:
                continue
            if tensor.channel_stride:
                channels = tensor.row_bytes // tensor.element_bytes
                out.append(struct.pack("<iII", file.types[role], tensor.element_bytes, channels))
            else:
                out.append(struct.pack("<iQ", file.types[role], tensor.row_bytes))
            # Packed, either way the data of all cells lies in one piece, channel after channel where transposed.
            out.append(source[tensor.offset : tensor.offset + n * tensor.row_bytes])
    return b"".join(out)


QWEN3_4B = [(2048, 2048)] * 36
QWEN3_30B = [(1024, 1024)] * 48


@pytest.mark.parametrize(
    ("shape", "cells", "size"),
    [
        (QWEN3_4B, 307, 45_274_820),
        (QWEN3_4B, 4105, 605_373_476),
        (QWEN3_4B, 16399, 2_418_394_244),
        (QWEN3_30B, 307, 30_185_444),
        (QWEN3_30B, 4105, 403_604_804),
        (QWEN3_30B, 16399, 1_612_350_884),
    ],
)
def test_sizes_are_those_of_real_files(shape: list[tuple[int, int]], cells: int, size: int) -> None:
    """Measured with a real server's files."""
    assert File.of(shape, cells, cells).source.state_bytes == size


CASES = {
    "plain": File.of([(64, 64)] * 3, 5, 16),
    "one cell": File.of([(64, 64)], 1, 1),
    "k and v differ": File.of([(68, 20), (34, 136)], 6, 9, types=(Q8_0, F16), rotation=(64, 0)),
    "transposed": File.of([(16, 24)] * 2, 7, 12, element=2),
    "scattered": File.of([(40, 24)] * 2, 6, 20, runs=[(1, 2), (5, 1), (11, 3)]),
    "scattered, transposed": File.of([(40, 24)] * 2, 6, 20, runs=[(0, 1), (4, 4), (19, 1)], element=4),
    "another sequence": File.of([(8, 8)] * 2, 3, 3, sequence=17),
    "many pieces": File.of([(8, 8)] * 2, 1500, 3000, runs=[(2 * i, 1) for i in range(1500)]),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def file(request: pytest.FixtureRequest) -> File:
    found: File = request.param
    return found


@pytest.fixture
def source(file: File) -> Iterator[Region]:
    with Region(-1, file.source.region_bytes) as one:
        rows.write_rows(one, file.source, 42)
        yield one


def test_the_bytes_are_those_of_an_independent_writer(file: File, source: Region, tmp_path: Path) -> None:
    assert file.saved(tmp_path / "state", source) == written_independently(file, bytes(source.view()))


def test_the_size_is_known_beforehand(file: File, source: Region, tmp_path: Path) -> None:
    n, payload = file.source.tokens, file.source.payload
    expected = 28 + 4 * n + 4 + 4 + 12 * n + 16 + 12 * len(file.source.tensors) + payload
    assert len(file.saved(tmp_path / "state", source)) == expected == file.target.state_bytes


def test_what_was_saved_is_restored_in_place(file: File, source: Region, tmp_path: Path) -> None:
    file.saved(tmp_path / "state", source)
    with Region(-1, file.target.region_bytes) as to:
        rows.fill_guard(to, file.target, 9)
        assert file.restored(tmp_path / "state", to) == list(range(file.source.tokens))
        assert rows.check_rows(to, file.target, 42) is None
        assert rows.check_guard(to, file.target, 9) is None


def test_golden_bytes(tmp_path: Path) -> None:
    """Two cells of one layer, K of 4 bytes and V of 2, written out by hand."""
    file = File.of([(4, 2)], 2, 2, types=(F16, Q8_0), rotation=(64, 128), sequence=3)
    with Region(-1, file.source.region_bytes) as source:
        source.view()[:12] = bytes.fromhex("a0a1a2a3 a4a5a6a7 b0b1 b2b3")
        found = file.saved(tmp_path / "state", source)
    assert found == bytes.fromhex(
        "71736767 04000000 06000000"  # "ggsq" read as a little-endian word, version, words
        "ffffffff 01000000 02000000 00000000 01000000 00000000"  # -1, 1, two ids, no media
        "01000000 02000000"  # one stream of two cells
        "00000000 01000000 03000000 01000000 01000000 03000000"  # position, one sequence, its id
        "00000000 01000000 40000000 80000000"  # not transposed, one layer, rotations
        "01000000 0400000000000000 a0a1a2a3a4a5a6a7"  # K: type, row, rows
        "08000000 0200000000000000 b0b1b2b3"  # V
    )


PLAIN = CASES["plain"]


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[tuple[Path, Region]]:
    """A good file, and a target that must stay as it is until the file is known to be good."""
    with Region(-1, PLAIN.source.region_bytes) as one, Region(-1, PLAIN.target.region_bytes) as to:
        rows.write_rows(one, PLAIN.source, 1)
        PLAIN.saved(tmp_path / "state", one)
        yield tmp_path / "state", to


def with_word(path: Path, index: int, word: int) -> None:
    content = bytearray(path.read_bytes())
    content[4 * index : 4 * index + 4] = struct.pack("<I", word % 2**32)
    path.write_bytes(content)


def fault(file: File, path: Path, to: Region) -> str:
    with pytest.raises(NativeError) as caught:
        file.restored(path, to)
    return caught.value.name


@pytest.mark.parametrize(
    ("cut", "name"),
    [
        (lambda whole: whole[:-1], "ENODATA"),
        (lambda whole: whole + b"\0", "E2BIG"),
        (lambda _: b"", "ENODATA"),
    ],
)
def test_a_file_of_another_length_is_refused(
    plain: tuple[Path, Region], cut: Callable[[bytes], bytes], name: str
) -> None:
    path, to = plain
    path.write_bytes(cut(path.read_bytes()))
    assert fault(PLAIN, path, to) == name
    assert bytes(to.view()) == bytes(to.size)


@pytest.mark.parametrize(("word", "value"), [(0, MAGIC + 1), (1, 2), (1, 5)])
def test_another_format_or_version_is_refused(plain: tuple[Path, Region], word: int, value: int) -> None:
    path, to = plain
    with_word(path, word, value)
    assert fault(PLAIN, path, to) == "EILSEQ"
    assert bytes(to.view()) == bytes(to.size)


# Words of PLAIN (5 tokens): 3 of the head, 3 + 5 + 1 of the payload, 2, five cells of 3, 4; then K's first header.
HEAD = {
    "n_words": 2, "marker": 3, "payload": 4, "n_tokens": 5, "n_media": 11, "n_stream": 12, "cell_count": 13,
    "n_seq_id": 15, "seq_id": 16, "v_trans": 29, "n_layer": 30, "n_rot_k": 31, "n_rot_v": 32,
}  # fmt: skip


@pytest.mark.parametrize("word", HEAD.values(), ids=HEAD.keys())
def test_another_geometry_is_refused_before_a_row_is_touched(plain: tuple[Path, Region], word: int) -> None:
    path, to = plain
    with_word(path, word, 77)
    assert fault(PLAIN, path, to) == "ESTALE"
    assert bytes(to.view()) == bytes(to.size)


@pytest.mark.parametrize("word", [33, 34, 35])
def test_another_type_or_row_size_is_refused(plain: tuple[Path, Region], word: int) -> None:
    path, to = plain
    with_word(path, word, 77)
    assert fault(PLAIN, path, to) == "ESTALE"


def test_positions_are_the_files(plain: tuple[Path, Region]) -> None:
    path, to = plain
    with_word(path, 14, 4000)
    assert PLAIN.restored(path, to) == [4000, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("where", "flags", "name"), [("state", os.O_RDONLY, "EBADF"), ("/dev/full", os.O_WRONLY, "ENOSPC")]
)
def test_a_failing_write_says_so(where: str, flags: int, name: str, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    fd = os.open(tmp_path / where, flags)
    try:
        with Region(-1, PLAIN.source.region_bytes) as one, pytest.raises(NativeError) as caught:
            PLAIN.state.save(fd, one, PLAIN.source)
        assert caught.value.name == name
    finally:
        os.close(fd)
