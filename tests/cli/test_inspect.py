"""`zcopy inspect` as a command: exit codes, formats, what it says of several files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/zcopy.inspect.schema.json").read_text())


def state(cells: int = 3, layers: int = 4, row: int = 256, kind: int = 1, rotation: int = 0) -> bytes:
    """A whole file; by its defaults one of the preset tiny."""
    words = struct.Struct("<I").pack
    out = b"".join(map(words, (0x67677371, 4, cells + 4, 0xFFFFFFFF, 1, cells, *range(cells), 0, 1, cells)))
    out += b"".join(struct.pack("<iIi", pos, 1, 0) for pos in range(cells))
    out += b"".join(map(words, (0, layers, rotation, rotation)))
    return out + (struct.pack("<iQ", kind, row) + bytes(row * cells)) * (2 * layers)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "good.bin").write_bytes(state())
    (tmp_path / "short.bin").write_bytes(state()[:-1])
    (tmp_path / "other.bin").write_bytes(state(layers=2, row=136, kind=8, rotation=64))
    return tmp_path


def document(done: Any) -> Any:
    found = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def test_a_whole_file_is_0_and_a_cut_one_1(zcopy: Any, files: Path) -> None:
    assert zcopy("inspect", files / "good.bin").returncode == 0
    done = zcopy("inspect", files / "good.bin", files / "short.bin", "--json")
    assert done.returncode == 1
    good, short = document(done)["files"]
    assert (good["verdict"], good["taken"], good["objections"]) == ("whole", None, None)
    assert short["verdict"] == "truncated by 1 bytes at the rows of layer 3 V"
    assert short["expected_bytes"] - short["size_bytes"] == 1


@pytest.mark.parametrize(
    ("words", "taken", "why"),
    [
        ((), True, []),
        (("--ctx", "3"), True, []),
        (("--ctx", "2"), False, ["it has 3 cells, the server 2"]),
        (("--v-trans",), False, ["its V is not transposed, the server's is transposed"]),
        (("--type-k", "bf16"), False, ["its K rows are f16, the server's bf16"]),
    ],
)
def test_a_server_takes_it_or_says_why_not(
    words: tuple[str, ...], taken: bool, why: list[str], zcopy: Any, files: Path
) -> None:
    done = zcopy("inspect", files / "good.bin", "--against", "tiny", *words, "--json")
    assert done.returncode == (0 if taken else 1)
    (found,) = document(done)["files"]
    assert (found["taken"], found["objections"]) == (taken, why)


def test_every_difference_is_a_line(zcopy: Any, files: Path) -> None:
    done = zcopy("inspect", files / "other.bin", "--against", "tiny", "--format", "table")
    assert done.returncode == 1
    for text in (
        "2 layers with attention, tiny has 4",
        "K rows are q8_0, the server's f16",
        "K rows are rotated",
    ):
        assert text in done.stdout
    short = zcopy("inspect", files / "short.bin", "--against", "tiny", "--json")
    assert document(short)["files"][0]["objections"] == [
        "the file is not whole: a server that is given it may end at once"
    ]


def test_rows_for_scripts(zcopy: Any, files: Path) -> None:
    header, row = zcopy("inspect", files / "good.bin").stdout.splitlines()
    found = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    assert (found["cells"], found["positions"], found["k"], found["verdict"]) == (
        "3",
        "0-2",
        "f16 256",
        "whole",
    )
    assert "taken" not in found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nothing.bin",), "No such file or directory"),
        ((".",), "is no regular file"),
        (("good.bin", "--ctx", "5"), "--ctx belongs to --against"),
        (("good.bin", "--against", "nothing.gguf"), "no such preset or file"),
        (("good.bin", "--against", "tiny", "--type-k", "q9"), "is none of"),
        ((), "FILE"),
    ],
)
def test_wrong_usage_is_2_and_one_line(words: tuple[str, ...], told: str, zcopy: Any, files: Path) -> None:
    done = zcopy("inspect", *(files / word if (files / word).exists() else word for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) <= 2
