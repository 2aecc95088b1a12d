"""A GGUF's metadata, of headers made by hand: whatever they claim, an answer or one line comes at once."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.engines.llama import header as module
from zcopy.engines.llama.header import metadata
from zcopy.engines.llama.model import cache_kind
from zcopy.errors import MeasurementError

U32, F32, BOOL, TEXT, ARRAY, U64 = 4, 6, 7, 8, 9, 10
HUGE = 1 << 60


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def pair(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, values: bytes) -> bytes:
    return struct.pack("<IQ", kind, count) + values


def header(*pairs: bytes, version: int = 3, count: int | None = None) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs) if count is None else count) + b"".join(pairs)


WHOLE = header(
    pair(b"general.architecture", TEXT, text(b"llama")),
    pair(b"llama.attention.sliding_window", U32, struct.pack("<I", 512)),
    pair(b"llama.scale", F32, struct.pack("<f", 0.5)),
    pair(b"llama.on", BOOL, b"\x01"),
    pair(b"llama.large", U64, struct.pack("<Q", HUGE)),
    pair(b"llama.heads", ARRAY, array(U32, 3, struct.pack("<III", 8, 0, 8))),
    pair(b"tokenizer.tokens", ARRAY, array(TEXT, 2, text(b"a") + text(b""))),
    pair(b"tokenizer.scores", ARRAY, array(F32, 5000, bytes(20000))),
)
VALUES = {
    "general.architecture": "llama", "llama.attention.sliding_window": 512, "llama.scale": 0.5, "llama.on": True,
    "llama.large": HUGE, "llama.heads": (8, 0, 8), "tokenizer.tokens": None, "tokenizer.scores": None,
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(data: bytes) -> Path:
        (tmp_path / "m.gguf").write_bytes(data)
        return tmp_path / "m.gguf"

    return write


def test_every_value_is_read_but_what_is_long(file: Callable[[bytes], Path]) -> None:
    assert metadata(file(WHOLE + b"tensors")) == VALUES
    assert cache_kind(file(WHOLE)) == "window"


def test_it_is_what_gguf_itself_writes(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_head_count_kv([4, 0])
    writer.add_key_length(64)
    writer.add_token_list(["a", "bc"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = metadata(tmp_path / "m.gguf")
    assert found["llama.attention.head_count_kv"] == (4, 0)
    assert found["llama.attention.key_length"] == 64
    assert found["tokenizer.ggml.tokens"] is None


def test_cut_anywhere_it_is_one_line(file: Callable[[bytes], Path]) -> None:
    ends = [*range(len(WHOLE) - 20000), len(WHOLE) - 1]
    for end in ends:
        with pytest.raises(MeasurementError, match=r"^[^\n]* is no whole GGUF header: [^\n]+$"):
            metadata(file(WHOLE[:end]))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"not a model", "it does not begin with GGUF"),
        (header(version=1), "version 1"),
        (header(version=3 << 24), "version 50331648"),  # the other byte order
        (header(count=HUGE), f"it claims {HUGE} keys in 24 bytes"),
        (header(struct.pack("<Q", HUGE)), f"it claims {HUGE} bytes of text in 32 bytes"),
        (header(pair(b"a", TEXT, struct.pack("<Q", HUGE))), "bytes of text"),
        (header(pair(b"a", ARRAY, array(U32, HUGE, b""))), f"it claims {HUGE} numbers"),
        (header(pair(b"a", ARRAY, array(TEXT, HUGE, b""))), f"it claims {HUGE} texts"),
        (header(pair(b"a", ARRAY, array(ARRAY, 1, array(U32, 0, b"")))), "a value of type 9"),
        (header(pair(b"a\nb", 77, b"")), "a value of type 77"),
    ],
)
def test_what_cannot_be_is_one_line(data: bytes, told: str, file: Callable[[bytes], Path]) -> None:
    with pytest.raises(MeasurementError, match="is no whole GGUF header") as caught:
        metadata(file(data))
    assert told in caught.value.message
    assert "\n" not in caught.value.message


@given(data=st.binary(max_size=200), at=st.integers(0, 300))
def test_any_bytes_are_an_answer_or_that_line(
    data: bytes, at: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    path.write_bytes(WHOLE[:at] + data + WHOLE[at + len(data) :])
    try:
        cache_kind(path)
    except MeasurementError as error:
        assert "is no whole GGUF header" in error.message


def test_a_header_that_never_ends_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 1 TiB without a block on the disk: a vocabulary of empty words for as long as anyone looks."""
    monkeypatch.setattr(module, "_MOST_BYTES", 1 << 20)
    path = tmp_path / "m.gguf"
    path.write_bytes(header(pair(b"a", ARRAY, array(TEXT, 1 << 20, b""))))
    os.truncate(path, 1 << 40)
    with pytest.raises(MeasurementError, match="it does not end within 1048576 bytes"):
        metadata(path)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "it is no regular file"),
        (os.mkdir, "it is no regular file"),
        (lambda _: None, r"No such file or directory \(ENOENT\)"),
        (lambda path: path.symlink_to(path), r"symbolic links \(ELOOP\)"),
    ],
    ids=["FIFO", "folder", "nothing", "itself"],
)
def test_what_is_no_file_is_told_at_once(make: Any, told: str, tmp_path: Path) -> None:
    make(tmp_path / "m.gguf")
    with pytest.raises(MeasurementError, match=told):
        metadata(tmp_path / "m.gguf")
