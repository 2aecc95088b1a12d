"""`zcopy inspect` as a command: exit codes, formats, what it says of several files."""

from __future__ import annotations

import json
import os
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
    (tmp_path / "long.bin").write_bytes(state() + b"\xee\xee")
    (tmp_path / "other.bin").write_bytes(state(layers=2, row=136, kind=8, rotation=64))
    (tmp_path / "model.bin").write_bytes(b"GGUF" + bytes(20))
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
    assert short["verdict"] == "truncated by 1 byte at the rows of layer 3 V"
    assert (short["expected_bytes"] - short["size_bytes"], short["expected_exact"]) == (1, True)


@pytest.mark.parametrize(
    ("name", "code", "verdict"),
    [
        ("good.bin", 0, "whole"),
        ("short.bin", 1, "truncated by 1 byte at the rows of layer 3 V"),
        ("long.bin", 1, "trailing 2 bytes"),
        ("model.bin", 1, "not a sequence state: a GGUF model"),
        ("nothing.bin", 2, "not read: No such file or directory"),
        (".", 2, "not read: not a regular file"),
        ("fifo", 2, "not read: not a regular file"),
        ("/dev/zero", 2, "not read: not a regular file"),
    ],
)
def test_every_file_has_its_verdict_and_exit_code(
    name: str, code: int, verdict: str, zcopy: Any, files: Path
) -> None:
    os.mkfifo(files / "fifo")
    done = zcopy("inspect", files / name, "--json")
    assert (done.returncode, [each["verdict"] for each in document(done)["files"]]) == (code, [verdict])


def test_what_cannot_be_read_hides_nothing(zcopy: Any, files: Path) -> None:
    """The others are shown, and a file that is not whole outweighs it."""
    for names, code in (
        (("nothing.bin", "good.bin"), 2),
        (("nothing.bin", "short.bin", "good.bin"), 1),
    ):
        done = zcopy("inspect", *(files / name for name in names))
        assert (done.returncode, done.stderr) == (code, "")
        assert len(done.stdout.splitlines()) == 1 + len(names)


@pytest.mark.parametrize(
    ("words", "taken", "why"),
    [
        ((), True, []),
        (("--ctx", "3"), True, []),
        (("--v-trans",), False, ["its V is not transposed, the server's is transposed"]),
        (("--type-k", "bf16"), False, ["its K rows are f16, the server's bf16"]),
        (("--streams", "2"), False, ["it is of 1 stream, the server has 2"]),
    ],
)
def test_a_server_takes_it_or_says_why_not(
    words: tuple[str, ...], taken: bool, why: list[str], zcopy: Any, files: Path
) -> None:
    done = zcopy("inspect", files / "good.bin", "--against", "tiny", *words, "--json")
    assert done.returncode == (0 if taken else 1)
    (found,) = document(done)["files"]
    assert (found["taken"], found["objections"]) == (taken, why)


def test_cells_are_compared_as_a_server_rounds_them(zcopy: Any, tmp_path: Path) -> None:
    """It has multiples of 256."""
    (tmp_path / "state").write_bytes(state(cells=257))
    for ctx, why in (("257", []), ("256", ["it has 257 cells, the server 256"])):
        done = zcopy("inspect", tmp_path / "state", "--against", "tiny", "--ctx", ctx, "--json")
        found = document(done)
        assert found["files"][0]["objections"] == why
        assert found["against"]["ctx"] == (512 if ctx == "257" else 256)


def test_every_difference_is_a_line(zcopy: Any, files: Path) -> None:
    done = zcopy("inspect", files / "other.bin", "--against", "tiny", "--format", "table")
    assert done.returncode == 1
    for text in (
        "2 layers with attention, tiny has 4",
        "K rows are q8_0, the server's f16",
        "K rows are rotated by 64, the server's not rotated",
    ):
        assert text in done.stdout


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("short.bin", ["it is cut: a server that is given it may end at once"]),
        ("model.bin", ["not a sequence state: a GGUF model"]),
        ("long.bin", []),
        ("nothing.bin", None),
    ],
)
def test_what_is_not_whole_may_be_taken_all_the_same(
    name: str, why: list[str] | None, zcopy: Any, files: Path
) -> None:
    """A server does not read what is too much; the exit code says that the file is not whole."""
    done = zcopy("inspect", files / name, "--against", "tiny", "--json")
    assert done.returncode == (2 if why is None else 1)
    (found,) = document(done)["files"]
    assert (found["taken"], found["objections"]) == (None if why is None else not why, why)


def test_rows_for_scripts(zcopy: Any, files: Path) -> None:
    header, row = zcopy("inspect", files / "good.bin").stdout.splitlines()
    found = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    named = ("cells", "positions", "caches", "layers", "k", "verdict")
    assert [found[name] for name in named] == ["3", "0-2", "attention", "4", "f16 256", "whole"]
    assert "taken" not in found


def test_many_kinds_of_rows_are_counted_in_a_cell(zcopy: Any, tmp_path: Path) -> None:
    words = struct.Struct("<I").pack
    out = b"".join(map(words, (0x67677371, 2, 0, 1, 1, 0, 1, 0, 0, 9)))
    sizes = [*range(2, 20, 2)]
    out += b"".join(struct.pack("<iQ", 1, size) + bytes(size) for size in (*sizes, *sizes))
    (tmp_path / "state").write_bytes(out)
    assert "f16 2, f16 4, f16 6, f16 8 and 5 more" in zcopy("inspect", tmp_path / "state").stdout
    (found,) = document(zcopy("inspect", tmp_path / "state", "--json"))["files"]
    assert [each["row_bytes"] for each in found["sections"][0]["k"]] == sizes


def test_names_are_shown_as_they_are(zcopy: Any, files: Path) -> None:
    """Markup in a name is no markup, and bytes that are no text do no harm."""
    odd = [files / "[red]x", files / os.fsdecode(b"\xff\xfe")]
    for path in odd:
        path.write_bytes(state())
    done = zcopy("inspect", *odd, "--format", "table")
    assert (done.returncode, "[red]x" in done.stdout) == (0, True)
    assert [each["whole"] for each in document(zcopy("inspect", *odd, "--json"))["files"]] == [True, True]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("good.bin", "--ctx", "5"), "belong to --against"),
        (("good.bin", "--type-k", "q8_0"), "belong to --against"),
        (("good.bin", "--against", "nothing.gguf"), "no such preset or file"),
        (("good.bin", "--against", ""), "no such preset or file"),
        (("good.bin", "--against", "tiny", "--type-k", "q9"), "is none of"),
        (("good.bin", "--against", "tiny", "--v-trans", "--type-v", "q8_0"), "no transposed quantised V"),
        (("good.bin", "--against", "tiny", "--streams", "257"), "--streams"),
        ((), "FILE"),
    ],
)
def test_wrong_usage_is_2_and_one_line(words: tuple[str, ...], told: str, zcopy: Any, files: Path) -> None:
    done = zcopy("inspect", *(files / word if word and (files / word).exists() else word for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_against_what_is_no_model_is_1_and_one_line(zcopy: Any, files: Path) -> None:
    done = zcopy("inspect", files / "good.bin", "--against", files / "model.bin")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is no whole GGUF header" in done.stderr


def test_a_pipe_is_no_file(zcopy: Any, files: Path) -> None:
    """It cannot be read here and there."""
    done = zcopy.shell(f"cat '{files}/good.bin' | Z inspect /dev/stdin")
    assert (done.returncode, "not read: not a regular file" in done.stdout) == (2, True)


def test_a_redirected_file_is(zcopy: Any, files: Path) -> None:
    assert "whole" in zcopy.shell(f"Z inspect /dev/stdin < '{files}/good.bin'").stdout
