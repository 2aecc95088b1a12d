"""CellTable against the plainest model of llama.cpp's bookkeeping: a dictionary of cells, and sets."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from zcopy.native.calls import NativeError
from zcopy.native.cells import Adoption, CellTable

MOST = 2**31 - 1


@dataclass
class Model:
    """Cells by number as (position, sequences); what is not in the dictionary is free."""

    size: int
    cells: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)
    head: int = 0
    clash: int | None = None

    def verdict(self, cells: Sequence[int], pos: Sequence[int], sequences: Sequence[int]) -> int:
        """0, or the errno that adopting must end with; nothing is changed."""
        if not cells or not sequences or len(set(sequences)) < len(sequences) or max(sequences) > 255:
            return errno.EINVAL
        ascend = all(a < b for a, b in pairwise(cells))
        if not ascend or cells[-1] >= self.size:
            return errno.ERANGE
        if taken := [cell for cell in cells if cell in self.cells]:
            self.clash = taken[0]
            return errno.EBUSY
        return errno.EINVAL if min(pos) < 0 else 0

    def adopt(self, cells: Sequence[int], pos: Sequence[int], sequences: Sequence[int]) -> None:
        for cell, at in zip(cells, pos, strict=True):
            self.cells[cell] = (at, frozenset(sequences))
        self.head = (cells[-1] + 1) % self.size

    def remove(self, sequence: int) -> int:
        freed = []
        for cell, (at, held) in list(self.cells.items()):
            self.cells[cell] = (at, held - {sequence})
            if held == {sequence}:
                freed.append(cell)
                del self.cells[cell]
        self.head = min([self.head, *freed])
        return len(freed)

    def pairs(self, sequence: int) -> list[tuple[int, int]]:
        return sorted((at, cell) for cell, (at, held) in self.cells.items() if sequence in held)


# Ids at both ends of every word of the native sequence sets, one that is too large, and few of them.
SEQUENCES = st.lists(st.sampled_from([0, 1, 63, 64, 127, 128, 200, 255, 256]), min_size=0, max_size=3)
POSITIONS = st.one_of(st.integers(0, 40), st.integers(0, MOST), st.just(-1))


class AgainstTheModel(RuleBasedStateMachine):
    @initialize(size=st.sampled_from([1, 2, 63, 64, 65, 127, 130, 300]))
    def start(self, size: int) -> None:
        self.table, self.model = CellTable(size), Model(size)

    def adopt(self, adoption: Adoption, cells: list[int], pos: list[int], sequences: list[int]) -> None:
        expected = self.model.verdict(cells, pos, sequences)
        if expected:
            with pytest.raises(NativeError) as caught:
                self.table.adopt(adoption)
            assert caught.value.errno == expected
            if expected == errno.EBUSY:
                assert self.table.clash == self.model.clash
        else:
            assert self.table.adopt(adoption) >= 0
            self.model.adopt(cells, pos, sequences)

    @rule(data=st.data(), sequences=SEQUENCES, ascending=st.booleans())
    def adopt_range(self, data: st.DataObject, sequences: list[int], ascending: bool) -> None:
        first = data.draw(st.integers(0, self.model.size))
        count = data.draw(st.integers(0, self.model.size + 2))
        pos = data.draw(st.lists(POSITIONS, min_size=count, max_size=count))
        pos = sorted(pos) if ascending else pos
        self.adopt(Adoption(pos, sequences, first=first), list(range(first, first + count)), pos, sequences)

    @rule(data=st.data(), sequences=SEQUENCES, sort=st.sampled_from([True, True, True, False]))
    def adopt_list(self, data: st.DataObject, sequences: list[int], sort: bool) -> None:
        free = [cell for cell in range(self.model.size + 1) if cell not in self.model.cells]
        anything = st.integers(0, self.model.size)
        cells = data.draw(st.lists(st.one_of(st.sampled_from(free), anything), max_size=20, unique=True))
        cells = sorted(cells) if sort else cells
        pos = data.draw(st.lists(POSITIONS, min_size=len(cells), max_size=len(cells)))
        self.adopt(Adoption(pos, sequences, cells=cells), cells, pos, sequences)

    @rule(sequence=st.sampled_from([0, 1, 63, 64, 127, 128, 200, 255]))
    def remove(self, sequence: int) -> None:
        assert self.table.remove(sequence) == self.model.remove(sequence)

    @rule(sequence=st.sampled_from([0, 64, 255]), count=st.integers(0, 500))
    def reserve(self, sequence: int, count: int) -> None:
        self.table.reserve(sequence, count)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "table"):
            return
        table, model = self.table, self.model
        table.audit()
        assert (table.size, table.used, table.head) == (model.size, len(model.cells), model.head)
        for cell in range(model.size):
            at, held = model.cells.get(cell, (-1, frozenset()))
            assert (table.pos(cell), table.shift(cell)) == (at, 0)
            assert {each for each in (0, 1, 63, 64, 127, 128, 200, 255) if table.has(cell, each)} == held
        for sequence in (0, 1, 63, 64, 127, 128, 200, 255):
            assert table.pairs(sequence) == model.pairs(sequence)


TestAgainstTheModel = AgainstTheModel.TestCase
TestAgainstTheModel.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)


@pytest.mark.parametrize("size", [0, 2**31, 2**32 - 1])
def test_a_table_of_no_size_is_refused(size: int) -> None:
    with pytest.raises(NativeError) as caught:
        CellTable(size)
    assert caught.value.name == "EINVAL"


@pytest.mark.parametrize("end", [1, 62, 63, 64, 65, 127, 128, 129, 200])
@pytest.mark.parametrize("first", [0, 1, 62, 63, 64, 65])
def test_a_range_ends_where_it_ends(first: int, end: int) -> None:
    """At the edges of the native words: its neighbours stay free, and no cell of it can be taken again."""
    if first >= end:
        return
    table = CellTable(200)
    table.adopt(Adoption(range(end - first), [0], first=first))
    table.audit()
    assert [cell for cell in range(200) if table.pos(cell) >= 0] == list(range(first, end))
    for cell in {first, end - 1}:
        with pytest.raises(NativeError):
            table.adopt(Adoption([0], [1], first=cell))
        assert table.clash == cell
    for cell in {first - 1, end} - {-1, 200}:
        table.adopt(Adoption([0], [1], first=cell))
    table.audit()


def test_adoption_is_all_or_nothing() -> None:
    table = CellTable(16)
    table.adopt(Adoption([5], [3], first=7))
    for refused in (Adoption(range(8), [0], first=2), Adoption(range(3), [0], cells=[1, 7, 9])):
        with pytest.raises(NativeError) as caught:
            table.adopt(refused)
        assert (caught.value.name, table.clash) == ("EBUSY", 7)
    table.audit()
    assert (table.used, table.head, table.pairs(0)) == (1, 8, [])


def test_a_sequence_may_not_be_named_twice() -> None:
    with pytest.raises(NativeError) as caught:
        CellTable(4).adopt(Adoption([0], [9, 9]))
    assert caught.value.name == "EINVAL"


def test_the_head_wraps_behind_the_last_cell() -> None:
    table = CellTable(8)
    table.adopt(Adoption(range(8), [0]))
    assert table.head == 0


def test_removing_moves_the_head_to_the_first_hole() -> None:
    table = CellTable(8)
    table.adopt(Adoption(range(3), [0]))
    table.adopt(Adoption(range(3), [1], first=3))
    assert table.remove(0) == 3
    assert table.head == 0
    assert table.remove(0) == 0


def test_a_shared_cell_is_free_when_its_last_sequence_goes() -> None:
    table = CellTable(8)
    table.adopt(Adoption(range(2), [1, 70]))
    assert table.remove(1) == 0
    assert (table.used, table.has(0, 1), table.has(0, 70)) == (2, False, True)
    assert table.remove(70) == 2
    assert table.used == 0


@pytest.mark.parametrize(("sequence", "name"), [(256, "EINVAL"), (2**32 - 1, "EINVAL")])
def test_ids_beyond_the_last_sequence_are_refused(sequence: int, name: str) -> None:
    table = CellTable(4)
    for call in (lambda: table.reserve(sequence, 1), lambda: table.remove(sequence)):
        with pytest.raises(NativeError) as caught:
            call()
        assert caught.value.name == name
    assert table.pairs(sequence) == []
    assert not table.has(0, sequence)


def test_more_pairs_than_there_can_be_are_refused() -> None:
    with pytest.raises(NativeError) as caught:
        CellTable(4).reserve(0, 2**32 - 1)
    assert caught.value.name == "ENOMEM"


def test_outside_the_table_nothing_is_held() -> None:
    table = CellTable(4)
    assert (table.pos(4), table.shift(99), table.has(4, 0)) == (-1, 0, False)


def test_an_adoption_is_good_for_every_repetition() -> None:
    table, adoption = CellTable(4096), Adoption(range(1000), [0], cells=range(3, 3003, 3))
    table.reserve(0, 1000)
    for _ in range(3):
        table.adopt(adoption)
        assert table.pairs(0)[:2] == [(0, 3), (1, 6)]
        table.remove(0)
    table.audit()
