"""Rows of a state file through a real provider: loaded into its packed source, placed into the cells of a region."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zcopy.buffers.memfd import sealed
from zcopy.errors import MeasurementError
from zcopy.native import rows, wire
from zcopy.native.provider import Done, Provider, Request, helper
from zcopy.native.rows import Layout
from zcopy.native.state import State
from zcopy.probes.handoff import scatter
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache

pytestmark = pytest.mark.usefixtures("nothing_left")

CELLS, CTX, NONCE = 37, 256, 77
CACHE = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])
MINUTE = 60 * 10**9


class Bench:
    """A provider with a packed source and a region, and a state file of known rows."""

    def __init__(self, folder: Path, cache: Cache = CACHE, scattered: bool = True) -> None:
        runs = scatter.scattered(CELLS, CTX, 3) if scattered else scatter.contiguous(CELLS)
        tensors, self.region_bytes = cache.tensors(CTX)
        self.layout = Layout(tensors, CTX, self.region_bytes, runs)
        packed, source_bytes = cache.tensors(CELLS)
        self.packed = Layout(packed, CELLS, source_bytes, scatter.contiguous(CELLS))
        self.region = sealed("zcopy-kv", self.region_bytes)
        self.source = sealed("zcopy-source", source_bytes)
        self.cache, self.path = cache, folder / "state"
        rows.fill_guard(self.region, self.layout, 9)
        self.provider = Provider.started(
            (str(helper("zcopy-provider")),), deadline_ns=MINUTE, ticks=time.monotonic_ns, environ=os.environ
        )
        for slot, layout, region in (
            (wire.Slot.SOURCE, self.packed, self.source),
            (wire.Slot.REGION, self.layout, self.region),
        ):
            self.provider.tensors(slot, layout, cache.numbers)
            self.provider.map(slot, region.export())

    def save(self, tokens: list[int] | None = None, *, blank: bool = False) -> int:
        """A file with the rows of NONCE (or, blank, with holes); its bytes."""
        with sealed("rows", self.source.size) as made, self.path.open("wb") as file:
            rows.write_rows(made, self.packed, NONCE)
            state = State(self.cache.numbers, tokens=tokens)
            return state.save(file.fileno(), None if blank else made, self.packed)

    def do(self, op: wire.Op, inject: wire.Inject = wire.Inject.NONE) -> Done:
        slot = wire.Slot.SOURCE if op is wire.Op.LOAD else wire.Slot.REGION
        path = str(self.path) if op is wire.Op.LOAD else ""
        request = Request(op, 0, slot=slot, inject=inject, types=self.cache.numbers, path=path)
        return self.provider.finish(self.provider.begin(request))

    def wrong(self) -> str | None:
        found = rows.check_rows(self.region, self.layout, NONCE) or rows.check_guard(
            self.region, self.layout, 9
        )
        return str(found) if found else None

    def close(self) -> None:
        self.provider.close()
        self.region.close()
        self.source.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    one = Bench(tmp_path)
    yield one
    one.close()


def test_rows_of_a_file_arrive_in_their_cells_and_nowhere_else(bench: Bench) -> None:
    size = bench.save()
    assert bench.wrong() == f"wrong row: layer 0 K cell {bench.layout.runs[0][0]} byte 0"
    loaded = bench.do(wire.Op.LOAD)
    assert loaded.bytes == size == bench.packed.state_bytes
    assert loaded.ns > 0
    assert rows.check_rows(bench.source, bench.packed, NONCE) is None
    placed = bench.do(wire.Op.PLACE)
    assert (placed.bytes, placed.reports) == (bench.packed.payload, 0)
    assert bench.wrong() is None


@pytest.mark.parametrize(
    ("inject", "seen"),
    [
        (wire.Inject.NO_WRITE, "wrong row: layer 0 K cell {} byte 0"),
        (wire.Inject.SWAP_KV, "wrong row: layer 0 K cell {} byte 0"),
    ],
)
def test_faults_on_purpose_are_seen(inject: wire.Inject, seen: str, bench: Bench) -> None:
    bench.save()
    bench.do(wire.Op.LOAD)
    assert bench.do(wire.Op.PLACE, inject).bytes == bench.packed.payload
    assert bench.wrong() == seen.format(bench.layout.runs[0][0])


def test_swapped_rows_are_those_of_the_other_role(bench: Bench) -> None:
    """Nothing else about them is wrong: swapped again, the same bytes are right."""
    bench.save()
    bench.do(wire.Op.LOAD)
    bench.do(wire.Op.PLACE, wire.Inject.SWAP_KV)
    first = bench.layout.runs[0][0]
    k, v = (tensor.offset + first * tensor.cell_stride for tensor in bench.layout.tensors[:2])
    size = bench.layout.tensors[0].row_bytes
    swapped = bytes(bench.region.view()[k : k + size]), bytes(bench.region.view()[v : v + size])
    bench.do(wire.Op.PLACE)
    assert swapped == (bytes(bench.region.view()[v : v + size]), bytes(bench.region.view()[k : k + size]))
    assert bench.wrong() is None


@pytest.mark.parametrize("inject", [wire.Inject.STRIDE, wire.Inject.RUN_LONG, wire.Inject.SHORT])
def test_other_faults_are_refused(inject: wire.Inject, bench: Bench) -> None:
    bench.save()
    bench.do(wire.Op.LOAD)
    with pytest.raises(MeasurementError, match=r"refused: writing rows: Invalid argument"):
        bench.do(wire.Op.PLACE, inject)
    assert rows.check_guard(bench.region, bench.layout, 9) is None


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda path: os.truncate(path, path.stat().st_size - 1), "shorter than these rows need"),
        (lambda path: os.truncate(path, path.stat().st_size + 1), "longer than these rows need"),
        (lambda path: path.write_bytes(b"\0" * path.stat().st_size), "not a sequence state of version 4"),
        (lambda path: path.unlink(), "cannot be read: No such file"),
    ],
)
def test_a_file_that_is_not_these_rows_is_refused(harm: object, told: str, bench: Bench) -> None:
    bench.save()
    harm(bench.path)  # type: ignore[operator]
    with pytest.raises(MeasurementError, match=told):
        bench.do(wire.Op.LOAD)


def test_a_source_that_nobody_has_filled_is_no_excuse(tmp_path: Path) -> None:
    """Placing needs a source that is mapped."""
    bench = Bench(tmp_path)
    try:
        bench.provider.drop(wire.Slot.SOURCE)
        with pytest.raises(MeasurementError, match="refused"):
            bench.do(wire.Op.PLACE)
    finally:
        bench.close()


def test_a_blank_file_is_a_state_of_zeros_that_takes_no_room(bench: Bench) -> None:
    assert bench.save(blank=True) == bench.path.stat().st_size == bench.packed.state_bytes
    whole = bench.path.read_bytes()
    bench.do(wire.Op.LOAD)
    assert not any(bench.source.view())
    bench.save()
    full = bench.path.read_bytes()
    head = 28 + 4 * CELLS + 8 + 12 * CELLS + 16
    assert whole[:head] == full[:head]
    row, at = bench.layout.tensors[0].row_bytes * CELLS, head
    for _ in bench.packed.tensors:
        assert whole[at : at + 12] == full[at : at + 12]
        assert not any(whole[at + 12 : at + 12 + row])
        at += 12 + row
    assert at == len(whole)


def test_token_ids_are_those_that_were_given(bench: Bench) -> None:
    tokens = random.Random(4).sample(range(1 << 31), CELLS)
    bench.save(tokens)
    data = bench.path.read_bytes()
    assert data[24 : 24 + 4 * CELLS] == b"".join(token.to_bytes(4, "little") for token in tokens)
    assert bench.do(wire.Op.LOAD).bytes == len(data)


def test_a_wrong_number_of_token_ids_is_no_state(bench: Bench) -> None:
    with pytest.raises(ValueError, match="36 token ids for 37 tokens"):
        bench.save(list(range(CELLS - 1)))


@pytest.mark.parametrize("cache", [CACHE, Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"], v_trans=True)])
def test_contiguous_cells(cache: Cache, tmp_path: Path) -> None:
    bench = Bench(tmp_path, cache, scattered=False)
    try:
        bench.save()
        bench.do(wire.Op.LOAD)
        bench.do(wire.Op.PLACE)
        assert bench.wrong() is None
    finally:
        bench.close()
