"""Files that are cut, longer than they should be, or nothing that is known: always one plain verdict."""

from __future__ import annotations

import os
import re
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.errors import UsageError
from zcopy.seqstate.state import StateFile, inspect

Read = Callable[[bytes], StateFile]


def shapes(make: Any) -> dict[str, Any]:
    return {
        "plain": make.Whole(),
        "transposed": make.Whole((make.Cache(v_trans=True),)),
        "mrope": make.Whole((make.Cache(mrope=True),)),
        "window": make.Whole((make.Cache(), make.Cache(pos=(2, 3), rows=((4, 4),) * 3))),
        "hybrid": make.Whole((make.Cache(), make.Recurrent())),
        "checkpoints": make.Whole((make.Cache(), make.Checkpoints())),
        "recurrent": make.Whole((make.Recurrent(),)),
    }


@pytest.mark.parametrize("shape", ["plain", "transposed", "mrope"])
def test_cut_at_any_byte_it_is_told_where_and_by_how_much(shape: str, make: Any, read: Read) -> None:
    data = shapes(make)[shape].data()
    counted = 0
    for size in range(len(data)):
        state = read(data[:size])
        found = re.fullmatch(r"truncated by (at least )?(\d+) bytes at (.+)", state.verdict)
        assert found, (size, state.verdict)
        assert not state.whole
        if found[1]:
            assert int(found[2]) <= len(data) - size
        else:
            assert (int(found[2]), state.expected) == (len(data) - size, len(data))
            counted += 1
    assert counted > len(data) // 3


@pytest.mark.parametrize("shape", ["window", "hybrid", "checkpoints", "recurrent"])
def test_cut_between_sections_is_all_that_can_look_whole(shape: str, make: Any, read: Read) -> None:
    """A file that ends where a section ends is a whole file of a smaller model; nothing else is."""
    whole = shapes(make)[shape]
    data = whole.data()
    ends = {len(make.Whole(whole.parts[:count]).data()) for count in range(1, len(whole.parts))}
    for size in range(len(data)):
        state = read(data[:size])
        assert state.whole == (size in ends), (size, state.verdict)
        if not state.whole:
            assert state.verdict.startswith(("truncated by ", "trailing ")), (size, state.verdict)
            # What is left of a section's first words may be anything.
            assert state.verdict.startswith("truncated") or any(size - end < 64 for end in ends)


@pytest.mark.parametrize("shape", ["plain", "transposed", "mrope", "window", "hybrid"])
@pytest.mark.parametrize("more", [1, 3, 7, 100])
def test_what_is_too_long_is_told_by_how_much(shape: str, more: int, make: Any, read: Read) -> None:
    data = shapes(make)[shape].data()
    state = read(data + b"\xee" * more)
    assert (state.verdict, state.expected, state.whole) == (f"trailing {more} bytes", len(data), False)


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (b"", "truncated by at least 4 bytes at the magic"),
        (b"q", "truncated by at least 3 bytes at the magic"),
        (b"qsgg", "truncated by at least 4 bytes at the version"),
        (b"GGUF" + bytes(100), "not a sequence state: a GGUF model"),
        (b"nsgg" + bytes(100), "not a sequence state: a llama.cpp session of all sequences"),
        (b"\x7fELF" + bytes(100), "not a sequence state: it begins with 0x464c457f"),
        (
            b"qsgg\x03\0\0\0" + bytes(100),
            "a sequence state of version 3, of which nothing is known (2 and 4 are)",
        ),
        (
            b"qsgg\xff\xff\xff\xff",
            "a sequence state of version 4294967295, of which nothing is known (2 and 4 are)",
        ),
        (b"qsgg\x04\0\0\0\xff\xff\xff\xff", "truncated by at least 17179869180 bytes at the tokens"),
    ],
)
def test_heads_that_are_none(data: bytes, verdict: str, read: Read) -> None:
    assert read(data).verdict == verdict


@pytest.mark.parametrize("at", ["streams", "cells", "layers", "type", "row", "media", "sequences"])
def test_absurd_counts_end_in_words_and_not_in_memory(at: str, make: Any, read: Read) -> None:
    data = bytearray(make.Whole().data())
    head = 12 + 4 * 8
    where = {"streams": head, "cells": head + 4, "layers": head + 8 + 48 + 4, "type": head + 8 + 48 + 16,
             "row": head + 8 + 48 + 20, "media": 12 + 8, "sequences": head + 8 + 4}[at]  # fmt: skip
    struct.pack_into("<I", data, where, 0xFFFFFFFF)
    tracemalloc.start()
    state = read(bytes(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not state.whole
    assert "\n" not in state.verdict
    assert peak < 8 << 20


@given(st.data())
def test_no_bytes_make_it_fail(
    tmp_path_factory: pytest.TempPathFactory, make: Any, data: st.DataObject
) -> None:
    """Words of sound files become others, files are cut and prolonged: always a verdict, in bounded time."""
    shape = data.draw(st.sampled_from(sorted(shapes(make))))
    bytes_ = bytearray(shapes(make)[shape].data())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(bytes_) // 4 - 1)) * 4
        struct.pack_into(
            "<I", bytes_, at, data.draw(st.sampled_from((0, 1, 2, 3, 255, 4096, 1 << 31, 0xFFFFFFFF)))
        )
    cut = data.draw(st.integers(0, len(bytes_)))
    path = tmp_path_factory.mktemp("fuzz") / "state"
    path.write_bytes(bytes(bytes_[:cut]) + data.draw(st.binary(max_size=40)))
    state = inspect(path)
    assert state.verdict
    assert state.whole == (state.verdict == "whole")


@given(st.binary(max_size=300))
def test_nor_any_others(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "state"
    path.write_bytes(b"qsgg\x04\0\0\0" + data)
    assert inspect(path).verdict


def test_a_hostile_file_costs_no_more_than_its_size(make: Any, tmp_path: Path) -> None:
    """As many streams and layers as there may be, of rows as short as can be."""
    cache = make.Cache(pos=(0,), rows=((1, 1),) * 4096)
    path = tmp_path / "state"
    path.write_bytes(make.Whole((cache,)).data())
    small = _seconds(path)
    path.write_bytes(make.Whole((make.Cache(pos=(0,), rows=((1, 1),) * 4096, streams=8),)).data())
    assert _seconds(path) < 40 * small


def _seconds(path: Path) -> float:
    began = time.process_time()
    inspect(path)
    return time.process_time() - began


def test_a_file_that_shrinks_while_it_is_read_is_cut(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_bytes(make.Whole().data())
    real, calls = os.pread, iter(range(1000))

    def shrinking(fd: int, count: int, at: int) -> bytes:
        if next(calls) == 6:
            os.truncate(path, 20)
        return real(fd, count, at)

    monkeypatch.setattr(os, "pread", shrinking)
    assert inspect(path).verdict.startswith("truncated by ")


@pytest.mark.usefixtures("nothing_left")
def test_what_is_no_file_is_wrong_usage_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, told in (
        (tmp_path / "fifo", "is no regular file"),
        (tmp_path, "is no regular file"),
        (Path("/dev/zero"), "is no regular file"),
        (tmp_path / "none", "No such file or directory"),
        (tmp_path / "none" / "below", "No such file or directory"),
    ):
        with pytest.raises(UsageError, match=told):
            inspect(path)
