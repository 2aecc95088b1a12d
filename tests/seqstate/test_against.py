"""Would a server take it: each difference on its own, and what is no difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from zcopy.seqstate.against import Server, objections
from zcopy.seqstate.state import StateFile

Read = Callable[[bytes], StateFile]
# The server of what the maker's Cache is by default.
SAME = Server("same", rows=((8, 8),) * 2, types=(1, 1), v_trans=False, rotation=(0, 0), ctx=256)


def test_of_the_same_there_is_nothing_to_say(make: Any, read: Read) -> None:
    assert objections(read(make.Whole().data()), SAME) == []
    assert objections(read(make.Whole((make.Cache(pos=()),), tokens=0).data()), SAME) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pos": range(257)}, "it has 257 cells, the server 256"),
        ({"rows": ((8, 8),)}, "it has 1 layers with attention, same has 2"),
        ({"rows": ((8, 8), (6, 8))}, "its K rows have 6 bytes, those of same 8"),
        ({"rows": ((8, 8), (8, 6))}, "its V rows have 6 bytes, those of same 8"),
        ({"rows": ((8, 0), (8, 0))}, "it has no V, same keeps it"),
        ({"types": (30, 1)}, "its K rows are bf16, the server's f16"),
        ({"types": (1, 77)}, "its V rows are type 77, the server's f16"),
        ({"v_trans": True}, "its V is transposed, the server's is not transposed"),
        ({"rotation": (64, 0)}, "its K rows are rotated by 64, the server's not rotated"),
        ({"rotation": (0, 64)}, "its V rows are rotated by 64, the server's not rotated"),
        ({"streams": 4}, "it is of 4 streams, the server has 1"),
        ({"streams": 4, "pos": ()}, "it is of 4 streams, the server has 1"),
        ({"mrope": True}, "its positions are M-RoPE's, those of same plain"),
    ],
)
def test_differences_of_the_file(change: dict[str, Any], why: str, make: Any, read: Read) -> None:
    state = read(make.Whole((make.Cache(**change),)).data())
    assert state.verdict == "whole"
    assert objections(state, SAME) == [why]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rotation": (128, 0)}, "its K rows are not rotated, the server's rotated by 128"),
        ({"rotation": (None, None)}, None),
        ({"ctx": None}, None),
        ({"ctx": 3}, "it has 4 cells, the server 3"),
        ({"recurrent": 4}, "it has no recurrent states, same has such"),
        ({"window": True}, "it has no cells of a window, same has such"),
        ({"indexer": True}, "it has no keys of an indexer, same has such"),
    ],
)
def test_differences_of_the_server(change: dict[str, Any], why: str | None, make: Any, read: Read) -> None:
    assert objections(read(make.Whole().data()), replace(SAME, **change)) == ([why] if why else [])


def test_of_a_window_rows_are_compared_whatever_their_order(make: Any, read: Read) -> None:
    state = read(make.Whole((make.Cache(rows=((8, 8),)), make.Cache(pos=(2, 3), rows=((4, 6),) * 2))).data())
    rows = ((4, 6), (8, 8), (4, 6))
    server = replace(SAME, rows=rows, window=True)
    assert objections(state, server) == []
    assert objections(state, replace(server, window=False)) == ["it has cells of a window, same has no such"]
    other = replace(server, rows=((4, 6), (8, 8), (4, 8)))
    assert objections(state, other) == ["its V rows have 6 bytes, those of same 8"]


def test_empty_caches_can_only_be_counted(make: Any, read: Read) -> None:
    empty = make.Cache(pos=())
    two = read(make.Whole((empty, empty), tokens=0).data())
    assert objections(two, SAME) == ["it has 2 caches of K and V, same has 1"]
    for change in ({"window": True}, {"indexer": True}):
        assert objections(two, replace(SAME, **change)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"states": None}, None),
        ({"recurrent": None}, "it has recurrent states, same has no such"),
        ({"recurrent": 6}, "its recurrent states are of 4 layers, same has 6"),
        ({"states": (12, 24)}, "its recurrent states have 12 and 20 bytes, those of same 12 and 24"),
        ({"ctx": 3}, "it is of 4 tokens, the server has 3 cells"),
    ],
)
def test_recurrent_states(change: dict[str, Any], why: str | None, make: Any, read: Read) -> None:
    alone = replace(SAME, rows=(), recurrent=4, states=(12, 20))
    state = read(make.Whole((make.Recurrent(),)).data())
    assert objections(state, replace(alone, **change)) == ([why] if why else [])


def test_the_version(make: Any, read: Read) -> None:
    state = read(make.Whole((make.Cache(rotation=None),), version=2, server=False).data())
    assert objections(state, SAME) == ["it is of version 2, servers of today take 4"]


def test_what_is_not_whole(make: Any, read: Read) -> None:
    """What is cut ends a server, what is none it does not take, what is behind the sections it ignores."""
    data = make.Whole((make.Cache(), make.Checkpoints())).data()
    assert objections(read(data[:-1]), SAME) == []
    assert objections(read(data + b"more"), SAME) == []
    assert objections(read(data[:100]), SAME) == ["it is cut: a server that is given it may end at once"]
    assert objections(read(b"GGUF" + data[4:]), SAME) == ["not a sequence state: a GGUF model"]
