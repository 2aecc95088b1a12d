"""What is read from whole files of every kind."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.seqstate.sections import Tensor
from zcopy.seqstate.state import StateFile, inspect

Read = Callable[[bytes], StateFile]
F16 = Tensor(1, 8)


def test_the_plain_kind(make: Any, read: Read) -> None:
    data = make.Whole(tokens=4).data()
    state = read(data)
    assert (state.verdict, state.whole, state.usable, state.also) == ("whole", True, True, ())
    assert state.size == state.expected == len(data)
    assert (state.version, state.tokens, state.media, state.cells) == (4, 4, 0, 4)
    (section,) = state.sections
    (cells,) = section.streams  # type: ignore[union-attr]
    assert (cells.count, cells.first, cells.last) == (4, 0, 3)
    assert (cells.gaps, cells.duplicates, cells.sequences) == (0, 0, (0,))
    assert (section.layers, section.v_trans, section.rotation, section.mrope) == (2, False, (0, 0), False)  # type: ignore[union-attr]
    assert section.k == section.v == (F16, F16)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"v_trans": True}, {"v_trans": True, "v": (F16, F16)}),
        ({"rotation": (64, 128)}, {"rotation": (64, 128)}),
        ({"types": (8, 2), "rows": ((68, 36),)}, {"k": (Tensor(8, 68),), "v": (Tensor(2, 36),)}),
        ({"types": (77, 1)}, {"k": (Tensor(77, 8),) * 2}),
        ({"mrope": True}, {"mrope": True}),
        ({"pos": (5,), "mrope": True}, {"mrope": True, "cells": 1}),
        (
            {"rows": ((8, 4), (16, 2))},
            {"k": (Tensor(1, 8), Tensor(1, 16)), "v": (Tensor(1, 4), Tensor(1, 2))},
        ),
        ({"streams": 3, "filled": 1}, {"cells": 4, "layers": 2, "v": (F16, F16)}),
        ({"pos": ()}, {"cells": 0, "layers": 0}),
        ({"pos": (), "streams": 3}, {"cells": 0}),
    ],
)
def test_caches_of_every_layout(change: dict[str, Any], seen: dict[str, Any], make: Any, read: Read) -> None:
    state = read(make.Whole((make.Cache(**change),)).data())
    assert state.verdict == "whole"
    assert {name: getattr(state.sections[0], name) for name in seen} == seen


def test_a_cache_without_v_may_be_one_that_is_cut(make: Any, read: Read) -> None:
    """That of a model with latent attention: the file ends where V would begin."""
    state = read(make.Whole((make.Cache(rows=((8, 0), (8, 0))),)).data())
    assert (state.verdict, state.sections[0].v) == ("whole", ())  # type: ignore[union-attr]
    assert state.also == ("if its model keeps V: truncated by about 88 bytes at the header of layer 0 V",)


@pytest.mark.parametrize(
    ("pos", "gaps", "duplicates"),
    [((5, 6, 7), 0, 0), ((0, 1, 5), 3, 0), ((2, 1, 0), 0, 0), ((0, 0, 3), 2, 1), ((4, 4, 4), 0, 2)],
)
def test_positions(pos: tuple[int, ...], gaps: int, duplicates: int, make: Any, read: Read) -> None:
    (section,) = read(make.Whole((make.Cache(pos=pos, sequence=3),)).data()).sections
    (cells,) = section.streams  # type: ignore[union-attr]
    assert (cells.first, cells.last, cells.gaps, cells.duplicates) == (min(pos), max(pos), gaps, duplicates)
    assert cells.sequences == (3,)


@pytest.mark.parametrize("highest", [200_019, (1 << 31) - 1])
def test_many_cells_are_looked_at_in_pieces(highest: int, make: Any, read: Read) -> None:
    """Four chunks of cells, with one break in the last."""
    pos = [*range(200_000), *range(highest - 9, highest + 1)]
    (section,) = read(make.Whole((make.Cache(pos=pos, rows=((2, 2),)),)).data()).sections
    (cells,) = section.streams  # type: ignore[union-attr]
    assert (cells.count, cells.first, cells.last) == (200_010, 0, highest)
    assert (cells.gaps, cells.duplicates) == (highest - 200_009, 0)


def test_of_very_many_cells_out_of_order_gaps_are_not_counted(
    make: Any, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sorted is bounded: first and last are told, the rest is not."""
    monkeypatch.setattr("zcopy.seqstate.cells._SORTED_MOST", 100)
    for pos, told in ((range(1, 201), 0), ([*range(1, 200), 900], None)):
        (section,) = read(make.Whole((make.Cache(pos=pos, rows=((2, 2),)),)).data()).sections
        (cells,) = section.streams  # type: ignore[union-attr]
        assert (cells.first, cells.last, cells.gaps, cells.duplicates) == (1, pos[-1], told, told)


def parts_of(roles: str, mrope: bool, make: Any) -> list[Any]:
    """The sections that follow the first; an indexer has its cells, and no V."""
    window = make.Cache(pos=(2, 3), rows=((4, 4),) * 3, mrope=mrope)
    indexer = make.Cache(rows=((6, 0),) * 2, mrope=mrope)
    recurrent = make.Recurrent(history=512 if "indexer" in roles else 0)
    known = {"window": window, "indexer": indexer, "recurrent": recurrent}
    return [known[role] for role in roles.split(", ")[1:]]


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("mrope", [False, True])
@pytest.mark.parametrize(
    "roles",
    [
        "attention",
        "attention, window",
        "attention, indexer",
        "attention, recurrent",
        "attention, window, recurrent",
        "attention, recurrent, indexer",
        "attention, indexer, window",
    ],
)
def test_sections_are_told_apart_by_what_fits(
    roles: str, mrope: bool, checkpoints: bool, make: Any, read: Read
) -> None:
    parts = [make.Cache(mrope=mrope), *parts_of(roles, mrope, make)]
    if checkpoints:
        parts.append(make.Checkpoints(((3, 0, 2, 40), (9, 1, 8, 0))))
    state = read(make.Whole(parts).data())
    assert (state.verdict, ", ".join(state.roles)) == ("whole", roles)
    assert state.sections[0].mrope is mrope  # type: ignore[union-attr]
    found = [(each.tokens, each.first, each.last, each.bytes) for each in state.checkpoints]
    assert found == ([(3, 0, 2, 80), (9, 1, 8, 40)] if checkpoints else [])


@pytest.mark.parametrize(
    ("change", "states"),
    [
        ({}, (12, 12, 20, 20)),
        ({"s": 0}, (12, 12, 0, 0)),  # a short convolution alone
        ({"with_state": 1}, (12, 20)),
        ({"with_state": 4}, (12,) * 4 + (20,) * 4),
        ({"history": 512}, (12, 12, 20, 20)),
        ({"cells": 0}, (12, 12, 20, 20)),
    ],
)
def test_recurrent_states_alone(
    change: dict[str, int], states: tuple[int, ...], make: Any, read: Read
) -> None:
    state = read(make.Whole((make.Recurrent(**change),)).data())
    assert (state.verdict, state.roles, state.cells) == ("whole", ("recurrent",), change.get("cells", 1))
    (section,) = state.sections
    assert section.states == tuple(Tensor(0, size) for size in states)  # type: ignore[union-attr]
    assert section.history == change.get("history")  # type: ignore[union-attr]
    assert section.last == (3 if state.cells else None)  # type: ignore[union-attr]


@pytest.mark.parametrize("roles", ["attention", "attention, window", "attention, recurrent"])
def test_an_empty_slot(roles: str, make: Any, read: Read) -> None:
    """36 bytes where attention is full; what a server saves of a slot that has nothing."""
    empty = make.Cache(pos=())
    more = {"window": (empty,), "recurrent": (make.Recurrent(cells=0),)}.get(roles.split(", ")[-1], ())
    data = make.Whole((empty, *more), tokens=0).data()
    state = read(data)
    assert (state.verdict, ", ".join(state.roles), state.tokens, state.cells) == ("whole", roles, 0, 0)
    assert roles != "attention" or len(data) == 36


def test_version_2_has_plain_tokens_and_no_rotation(make: Any, read: Read) -> None:
    state = read(make.Whole((make.Cache(rotation=None),), version=2, server=False).data())
    assert (state.verdict, state.version, state.tokens, state.media) == ("whole", 2, 4, None)
    assert state.sections[0].rotation is None  # type: ignore[union-attr]


def test_plain_tokens_of_version_4(make: Any, read: Read) -> None:
    assert read(make.Whole(server=False, tokens=9).data()).tokens == 9


def test_media_are_counted(make: Any, read: Read) -> None:
    assert read(make.Whole(media=2).data()).media == 2


def test_rows_are_never_read(make: Any, tmp_path: Path) -> None:
    """A terabyte of holes where rows would be: heads are where they are."""
    path, row = tmp_path / "huge.bin", 1 << 31
    cells = 256
    with path.open("wb") as file:
        whole = make.Whole((make.Cache(pos=range(cells), rows=()),), tokens=cells).data()
        file.write(whole[:-12] + make.words(1, 0, 0))
        for _ in range(2):
            file.write(struct.pack("<iQ", 1, row))
            file.seek(cells * row, 1)
        file.truncate(file.tell())
    state = inspect(path)
    assert (state.verdict, state.size > 1 << 40) == ("whole", True)
    assert state.read_bytes < 30 * cells


def test_cells_are_read_once(make: Any, read: Read) -> None:
    """Whatever readings of a section there are."""
    cells = 100_000
    state = read(make.Whole((make.Cache(pos=range(cells), rows=((2, 2),) * 3),), tokens=cells).data())
    assert 12 * cells < state.read_bytes < 13 * cells
