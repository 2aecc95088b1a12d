"""Files that are cut, longer than they should be, or nothing that is known: always one plain verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from zcopy.seqstate.state import StateFile

Read = Callable[[bytes], StateFile]
TRUNCATED = re.compile(r"truncated by (at least |about )?(\d+) bytes? at (.+)")


def told(state: StateFile) -> tuple[str, int]:
    found = TRUNCATED.fullmatch(state.verdict)
    assert found, state.verdict
    return found[1] or "", int(found[2])


@pytest.mark.parametrize("shape", ["plain", "transposed", "mrope", "many", "streams"])
def test_cut_at_any_byte_it_is_told_where_and_by_how_much(shape: str, shapes: Any, read: Read) -> None:
    data = shapes[shape].data()
    seen: dict[str, int] = {}
    for size in range(len(data)):
        # All K and no V is a whole file of a model without V: there it is told beside.
        v = 2 * (12 + 8 * (20 if shape == "many" else 4))
        without_v = size == len(data) - v and shape != "streams"
        state = read(data[:size])
        assert state.whole == without_v
        assert not state.usable or without_v
        if without_v:
            assert f"truncated by about {v} bytes at the header of layer 0 V" in state.also[0]
            continue
        how, missing = told(state)
        seen[how] = seen.get(how, 0) + 1
        if how == "at least ":
            assert missing <= len(data) - size
            assert set(seen) == {how}  # once a row size is known it is never less than that
        else:
            assert (missing, state.expected) == (len(data) - size, len(data))
            assert state.exact == (how == "")
    assert seen[""] >= 32  # the rows of the last V
    assert seen["about "] > len(data) // 3


@pytest.mark.parametrize("shape", ["without V", "window", "hybrid", "indexer", "checkpoints", "recurrent"])
def test_cut_between_sections_is_all_that_can_look_whole(
    shape: str, make: Any, shapes: Any, read: Read
) -> None:
    """A file that ends where a section ends, or a first section's K, is a whole file of another model: none else is."""
    whole = shapes[shape]
    data = whole.data()
    ends = {len(make.Whole(whole.parts[:count]).data()) for count in range(1, len(whole.parts))}
    ends |= {
        end - sum(12 + v * len(part.pos) for _, v in part.rows)
        for count, part in enumerate(whole.parts, 1)
        if isinstance(part, make.Cache) and part.rows[0][1]
        for end in [len(make.Whole(whole.parts[:count]).data())]
    }
    for size in range(len(data)):
        state = read(data[:size])
        assert state.whole == (size in ends), (size, state.verdict)
        if not state.whole:
            how, missing = told(state)
            assert missing > 0
            assert how != "at least " or missing <= len(data) - size


def test_where_a_few_bytes_can_be_two_things_both_are_told(make: Any, read: Read) -> None:
    section = make.Cache()
    cut = make.Whole((section, make.Recurrent())).data()[: len(make.Whole((section,)).data()) + 6]
    state = read(cut)
    assert told(state)[0] == "at least "
    assert state.also == ("if it is a state of attention alone: trailing 6 bytes",)
    without_v = make.Whole((make.Cache(rows=((8, 0),) * 2),)).data()
    assert read(without_v + b"\0").also == ("if it is a state of attention without V alone: trailing 1 byte",)
    # With a section's rows there is no doubt.
    assert read(make.Whole().data()[:-1]).also == ()
    assert read(make.Whole((section, make.Recurrent())).data()[:-1]).also == ()


@pytest.mark.parametrize(
    "shape", ["plain", "transposed", "mrope", "without V", "window", "hybrid", "indexer", "recurrent"]
)
@pytest.mark.parametrize("more", [1, 3, 7, 100])
def test_what_is_too_long_is_told_by_how_much(shape: str, more: int, shapes: Any, read: Read) -> None:
    data = shapes[shape].data()
    state = read(data + b"\xee" * more)
    assert state.verdict == f"trailing {more} byte{'s' * (more > 1)}"
    assert (state.expected, state.exact, state.whole, state.usable) == (len(data), True, False, True)


def test_behind_checkpoints_too(shapes: Any, read: Read) -> None:
    data = shapes["checkpoints"].data()
    state = read(data + b"SCKP")
    assert (state.verdict, len(state.checkpoints)) == ("trailing 4 bytes", 1)


def test_cut_checkpoints_leave_the_sections_whole(make: Any, shapes: Any, read: Read) -> None:
    """A server reads up to them and goes on without."""
    whole = shapes["checkpoints"]
    data, begin = whole.data(), len(make.Whole(whole.parts[:1]).data())
    for size in range(begin + 1, len(data)):
        state = read(data[:size])
        assert (state.usable, state.whole, told(state)[0]) == (True, False, "at least ")


def test_what_begins_like_checkpoints_and_is_none_is_too_much(make: Any, read: Read) -> None:
    for block in (
        b"SCKP\x02\0\0\0\0\0\0\0",
        b"SCKP\x01\0\0\0\xff\xff\xff\xff",
        b"SCKP\x01\0\0\0\x01\0\0\0" + b"\xff" * 40,
    ):
        assert read(make.Whole().data() + block).verdict == f"trailing {len(block)} bytes"


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (b"", "truncated by at least 4 bytes at the magic"),
        (b"q", "truncated by at least 3 bytes at the magic"),
        (b"qsgg", "truncated by at least 4 bytes at the version"),
        (b"qsgg\x04\0\0", "truncated by at least 1 byte at the version"),
        (b"GGUF" + bytes(100), "not a sequence state: a GGUF model"),
        (b"nsgg" + bytes(100), "not a sequence state: a llama.cpp session of all sequences"),
        (b"ggsq" + bytes(100), "not a sequence state: a sequence state of a big-endian machine"),
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
        (
            b"qsgg\x04\0\0\0\x04\0\0\0\xff\xff\xff\xff\x01\0\0\0\x02\0\0\0\0\0\0\0",
            "not a state that a known model has: 4 token words cannot hold 2 tokens",
        ),
        (
            b"qsgg\x04\0\0\0\0\0\0\0DSV4" + bytes(100),
            "not read further: DeepSeek V4's caches (DSV4) follow the tokens",
        ),
    ],
)
def test_heads_that_are_none(data: bytes, verdict: str, read: Read) -> None:
    state = read(data)
    assert (state.verdict, state.whole, state.usable) == (verdict, False, False)
