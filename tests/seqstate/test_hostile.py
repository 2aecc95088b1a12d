"""Numbers that no state has, files that change, what is no file: one plain verdict, in bounded time and memory."""

from __future__ import annotations

import os
import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.seqstate.state import StateFile, UnreadableError, inspect

Read = Callable[[bytes], StateFile]
TRUNCATED = re.compile(r"truncated by (at least |about )?(\d+) bytes? at (.+)")
HEAD = 12 + 4 * 8  # magic, version, count, and a payload of four tokens


@pytest.mark.parametrize(
    ("at", "value", "verdict"),
    [
        (8, 0xFFFFFFFF, r"truncated by at least \d+ bytes at the tokens"),
        (HEAD, 0xFFFFFFFF, "not a state .*: 4294967295 streams"),
        (HEAD, 0, "not a state .*: 0 streams"),
        # With more cells than there are the first byte behind them is no cell's.
        (HEAD + 4, 0xFFFFFFFF, "not a state .* another number of sequences than 1"),
        (HEAD + 4, 5, "not a state .* another number of sequences than 1"),
        (HEAD + 8, 0xFFFFFFFF, "not a state .* a cell has position -1"),
        (HEAD + 12, 2, "not a state .* another number of sequences than 1"),
        (HEAD + 56, 2, "not a state .* V transposed 2"),
        (HEAD + 60, 0xFFFFFFFF, "not a state .* 4294967295 layers"),
        (HEAD + 64, 0xFFFFFFFF, "not a state .*rotation"),
        (HEAD + 72, 0xFFFFFFFF, "not a state .*layer 0 K: type -1 with rows of 8 bytes"),
        (HEAD + 76, 0xFFFFFFFF, "not a state .*layer 0 K: f16 with rows of 4294967295 bytes"),
        (HEAD + 76, 7, "not a state .*layer 0 K: f16 with rows of 7 bytes"),
        (HEAD + 80, 0xFFFFFFFF, "not a state .*layer 0 K: f16 with rows of"),
    ],
)
def test_absurd_numbers_end_in_words_and_not_in_memory(
    at: int, value: int, verdict: str, make: Any, read: Read
) -> None:
    data = bytearray(make.Whole().data())
    struct.pack_into("<I", data, at, value)
    tracemalloc.start()
    state = read(bytes(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert re.match(verdict, state.verdict), state.verdict
    assert not state.whole
    assert peak < 4 << 20


@pytest.mark.parametrize(
    ("at", "value", "fault"),
    [
        (0, 2, "2 cells of recurrent states in one sequence"),
        (4, 0x80000000, "a recurrent cell at position -2147483648 with 0 sequences"),
        (8, 1, "a recurrent cell at position 3 with 1 sequences"),
        (12, 1, "recurrent states of 4 layers, transposed 1"),
        (16, 0, "recurrent states of 0 layers, transposed 0"),
        (16, 0xFFFFFFFF, "recurrent states of 4294967295 layers, transposed 0"),
        (16, 1, "more recurrent states than 1 layers have"),
        (20, 999, "recurrent state 0: type 999 with rows of 12 bytes"),
        (24, 0, "recurrent state 0: f32 with rows of 0 bytes"),
        (24, 13, "recurrent state 0: f32 with rows of 13 bytes"),
    ],
)
def test_recurrent_states_that_are_none(at: int, value: int, fault: str, make: Any, read: Read) -> None:
    """What is read as one section is sound, and what follows it begins as recurrent states do."""
    attention = make.Whole()
    recurrent = bytearray(make.Recurrent().data())
    struct.pack_into("<I", recurrent, at, value)
    data = attention.data() + bytes(recurrent)
    state = read(data)
    assert state.verdict == f"trailing {len(recurrent)} bytes"
    begun = at > 4
    assert state.also == ((f"if it is a state of attention and recurrent: {fault}",) if begun else ())


def test_unequal_states_are_none(make: Any, read: Read) -> None:
    data = bytearray(make.Whole((make.Recurrent(),)).data())
    struct.pack_into("<Q", data, len(data) - 28, 16)  # the last s is shorter than the others
    assert read(bytes(data[:-4])).verdict.startswith("not a state that a known model has")


@given(st.data())
def test_no_bytes_make_it_fail(
    tmp_path_factory: pytest.TempPathFactory, shapes: Any, data: st.DataObject
) -> None:
    """Words of sound files become others, files are cut and prolonged: always a verdict."""
    shape = data.draw(st.sampled_from(sorted(shapes)))
    bytes_ = bytearray(shapes[shape].data())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(bytes_) // 4 - 1)) * 4
        word = st.sampled_from((0, 1, 2, 3, 4, 8, 255, 4096, 1 << 31, 0xFFFFFFFF)) | st.integers(
            0, 0xFFFFFFFF
        )
        struct.pack_into("<I", bytes_, at, data.draw(word))
    cut = data.draw(st.integers(0, len(bytes_)))
    path = tmp_path_factory.mktemp("fuzz") / "state"
    path.write_bytes(bytes(bytes_[:cut]) + data.draw(st.binary(max_size=40)))
    _is_sound(inspect(path))


@given(st.binary(max_size=300))
def test_nor_any_others(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "state"
    path.write_bytes(b"qsgg\x04\0\0\0" + data)
    _is_sound(inspect(path))


def _is_sound(state: StateFile) -> None:
    assert state.whole == (state.verdict == "whole")
    assert state.usable or not state.whole
    assert "\n" not in state.verdict
    assert len(state.roles) == len(state.sections)
    if state.whole:
        assert state.expected == state.size
    elif found := re.fullmatch(r"trailing (\d+) bytes?", state.verdict):
        assert int(found[1]) == state.size - (state.expected or 0) > 0
    elif found := TRUNCATED.fullmatch(state.verdict):
        assert int(found[2]) > 0
        assert found[1] == "at least " or int(found[2]) == (state.expected or 0) - state.size


def test_a_hostile_file_is_read_a_few_times_at_most(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of tensors in each section, of which any number of readings can be made."""
    cache = make.Cache(pos=(0,), rows=((2, 2),) * 4000)
    data = make.Whole((cache, cache, cache)).data()
    path, real, calls = tmp_path / "state", os.pread, [0]
    path.write_bytes(data)

    def counting(fd: int, count: int, at: int) -> bytes:
        calls[0] += 1
        return real(fd, count, at)

    monkeypatch.setattr(os, "pread", counting)
    inspect(path)
    assert calls[0] < 10 * 3 * 8000


def test_more_tensors_than_any_model_has_are_not_looked_at(make: Any, read: Read) -> None:
    """A stream with cells is repeated: no server writes more than one with cells."""
    cache = make.Cache(pos=(0,), rows=((2, 2),) * 4000)
    data = bytearray(make.Whole((cache,)).data())
    struct.pack_into("<I", data, HEAD, 250)
    state = read(bytes(data) + cache.data()[4:] * 3)
    assert "more than 8192 tensors" in state.verdict


@pytest.mark.parametrize("size", [0, 20, 100, 1000])
def test_a_file_that_changes_while_it_is_read_is_told(
    size: int, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_bytes(make.Whole().data())
    before, real, calls = path.stat().st_size, os.pread, iter(range(1000))

    def changing(fd: int, count: int, at: int) -> bytes:
        if next(calls) == 6:
            os.truncate(path, size)
        return real(fd, count, at)

    monkeypatch.setattr(os, "pread", changing)
    state = inspect(path)
    assert state.verdict == f"changed while it was read: it had {before} bytes, then {size} bytes"
    assert (state.whole, state.usable) == (False, False)


@pytest.mark.usefixtures("nothing_left")
def test_what_is_no_file_is_wrong_usage_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    for path, told in (
        (tmp_path / "fifo", "not a regular file"),
        (tmp_path, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (Path("/dev/tty"), "No such device|not a regular file"),
        (tmp_path / "none", "No such file or directory"),
        (tmp_path / "none" / "below", "No such file or directory"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / "a\0b", "null"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(UnreadableError, match=told):
            inspect(path)


def test_no_permission_is_told(tmp_path: Path) -> None:
    """Root may read everything, so that it has to be nobody for this."""
    path, nobody = tmp_path / "state", 65534
    path.touch(mode=0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(nobody)
    try:
        with pytest.raises(UnreadableError, match="Permission denied"):
            inspect(path)
    finally:
        if root:
            os.seteuid(0)


def test_holes_are_no_state(tmp_path: Path) -> None:
    """A terabyte of nothing, and one with a head."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert inspect(path).verdict == "not a sequence state: it begins with 0x00000000"
    with path.open("r+b") as file:
        file.write(b"qsgg\x04\0\0\0\0\0\0\0\x01\0\0\0\xff\xff\xff\xff")
    state = inspect(path)
    assert "another number of sequences than 1" in state.verdict
    assert state.read_bytes < 1 << 16
