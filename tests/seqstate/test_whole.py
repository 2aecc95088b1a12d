"""What is read from whole files of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.seqstate.sections import Tensor
from zcopy.seqstate.state import StateFile, inspect

Read = Callable[[bytes], StateFile]


def test_the_plain_kind(make: Any, read: Read) -> None:
    data = make.Whole(tokens=4).data()
    state = read(data)
    assert (state.verdict, state.whole, state.size, state.expected) == ("whole", True, len(data), len(data))
    assert (state.version, state.tokens, state.media, state.cells) == (4, 4, 0, 4)
    (section,) = state.sections
    (cells,) = section.streams  # type: ignore[union-attr]
    assert (cells.count, cells.first, cells.last, cells.gaps, cells.duplicates, cells.sequences) == (
        4,
        0,
        3,
        0,
        0,
        (0,),
    )
    assert (section.layers, section.v_trans, section.rotation, section.mrope) == (2, False, (0, 0), False)  # type: ignore[union-attr]
    assert section.k == section.v == (Tensor(1, 8),) * 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"v_trans": True}, {"v_trans": True, "v": (Tensor(1, 8),) * 2}),
        ({"rotation": (64, 128)}, {"rotation": (64, 128)}),
        ({"types": (8, 2)}, {"k": (Tensor(8, 8),) * 2, "v": (Tensor(2, 8),) * 2}),
        ({"mrope": True}, {"mrope": True}),
        (
            {"rows": ((8, 4), (16, 2))},
            {"k": (Tensor(1, 8), Tensor(1, 16)), "v": (Tensor(1, 4), Tensor(1, 2))},
        ),
        ({"streams": 2}, {"cells": 8}),
        ({"pos": ()}, {"cells": 0, "layers": 0}),
    ],
)
def test_caches_of_every_layout(change: dict[str, Any], seen: dict[str, Any], make: Any, read: Read) -> None:
    state = read(make.Whole((make.Cache(**change),)).data())
    assert state.verdict == "whole"
    assert {name: getattr(state.sections[0], name) for name in seen} == seen


@pytest.mark.parametrize(
    ("pos", "gaps", "duplicates"),
    [((5, 6, 7), 0, 0), ((0, 1, 5), 3, 0), ((2, 1, 0), 0, 0), ((0, 0, 3), 2, 1), ((4, 4, 4), 0, 2)],
)
def test_positions(pos: tuple[int, ...], gaps: int, duplicates: int, make: Any, read: Read) -> None:
    (section,) = read(make.Whole((make.Cache(pos=pos, sequence=3),)).data()).sections
    (cells,) = section.streams  # type: ignore[union-attr]
    assert (cells.first, cells.last, cells.gaps, cells.duplicates) == (min(pos), max(pos), gaps, duplicates)
    assert cells.sequences == (3,)


def test_many_cells_are_looked_at_in_pieces(make: Any, read: Read) -> None:
    """Three chunks of cells, with one break in the third."""
    pos = [*range(200_000), *range(200_010, 200_020)]
    (section,) = read(make.Whole((make.Cache(pos=pos, rows=((1, 1),)),)).data()).sections
    (cells,) = section.streams  # type: ignore[union-attr]
    assert (cells.count, cells.first, cells.last, cells.gaps, cells.duplicates) == (
        200_010,
        0,
        200_019,
        10,
        0,
    )


def kinds(state: StateFile) -> list[str]:
    return [section.kind for section in state.sections]


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("mrope", [False, True])
@pytest.mark.parametrize("second", ["window", "recurrent", None])
def test_sections_are_told_apart_by_what_fits(
    second: str | None, mrope: bool, checkpoints: bool, make: Any, read: Read
) -> None:
    parts = [make.Cache(mrope=mrope)]
    if second == "window":
        parts.append(make.Cache(pos=(2, 3), rows=((4, 4),) * 3, mrope=mrope))
    if second == "recurrent":
        parts.append(make.Recurrent())
    if checkpoints:
        parts.append(make.Checkpoints(((3, 0, 2, 40), (9, 1, 8, 0))))
    state = read(make.Whole(parts).data())
    assert state.verdict == "whole"
    assert kinds(state) == [
        "attention",
        *{"window": ["attention"], "recurrent": ["recurrent"], None: []}[second],
    ]
    found = [(each.tokens, each.first, each.last, each.bytes) for each in state.checkpoints]
    assert found == ([(3, 0, 2, 80), (9, 1, 8, 40)] if checkpoints else [])


def test_recurrent_states_alone(make: Any, read: Read) -> None:
    state = read(make.Whole((make.Recurrent(),)).data())
    assert (state.verdict, kinds(state), state.cells) == ("whole", ["recurrent"], 1)
    (section,) = state.sections
    assert section.states == (Tensor(0, 12),) * 2 + (Tensor(0, 20),) * 2  # type: ignore[union-attr]
    assert section.last == 9  # type: ignore[union-attr]


@pytest.mark.parametrize("parts", ["cache", "window", "hybrid"])
def test_an_empty_slot(parts: str, make: Any, read: Read) -> None:
    """36 bytes where attention is full; what a server saves of a slot that has nothing."""
    empty = make.Cache(pos=())
    more = {"cache": (), "window": (empty,), "hybrid": (make.Recurrent(cells=0),)}[parts]
    data = make.Whole((empty, *more), tokens=0).data()
    state = read(data)
    assert (state.verdict, state.tokens, state.cells) == ("whole", 0, 0)
    assert parts != "cache" or len(data) == 36


def test_version_2_has_plain_tokens_and_no_rotation(make: Any, read: Read) -> None:
    state = read(make.Whole((make.Cache(rotation=None),), version=2, server=False).data())
    assert (state.verdict, state.version, state.tokens, state.media) == ("whole", 2, 4, None)
    assert state.sections[0].rotation is None  # type: ignore[union-attr]


def test_plain_tokens_of_version_4(make: Any, read: Read) -> None:
    assert read(make.Whole(server=False, tokens=9).data()).tokens == 9


def test_rows_are_never_read(make: Any, tmp_path: Path) -> None:
    """A terabyte of holes where rows would be: heads are where they are."""
    import struct

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
    assert state.read_bytes < 100 * cells
