"""Rows and guards against a plain model that computes every byte of a region by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcopy.native import _zc, rows
from zcopy.native.calls import NativeError
from zcopy.native.region import Region
from zcopy.native.rows import K, Layout, Tensor, V

lib = _zc.lib
STEP = 0x9E3779B97F4A7C15
WORD = 2**64
BOUND = settings(max_examples=60, deadline=None)
NONCES = st.integers(1, WORD - 1)


def mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


def pattern(base: int, count: int) -> bytes:
    """Words base + 1 step, base + 2 steps …, little endian."""
    words = ((base + j * STEP) % WORD for j in range(1, count // 8 + 2))
    return b"".join(word.to_bytes(8, "little") for word in words)[:count]


@dataclass(frozen=True)
class Place:
    """Whose byte it is: a tensor's, and which of its cell's row."""

    tensor: Tensor
    cell: int
    byte: int


@dataclass(frozen=True)
class Shape:
    """A layout's description, from which the model computes what the native code must do."""

    tensors: tuple[Tensor, ...]
    n_cells: int
    region_bytes: int
    runs: tuple[tuple[int, int], ...]

    def layout(self) -> Layout:
        return Layout(self.tensors, self.n_cells, self.region_bytes, self.runs)

    @property
    def owned(self) -> list[int]:
        """The request's cells in the order of its tokens."""
        return [cell for first, count in self.runs for cell in range(first, first + count)]

    def places(self) -> dict[int, Place]:
        """Every byte of the region that belongs to some cell's row."""
        found = {}
        for tensor in self.tensors:
            for cell in range(self.n_cells):
                for byte in range(tensor.row_bytes):
                    found[at(tensor, cell, byte)] = Place(tensor, cell, byte)
        return found

    def image(self, nonce: int, seed: int) -> bytes:
        """The whole region: the rows of `nonce`, the guard of `seed` everywhere else."""
        found = bytearray(pattern(seed, self.region_bytes) if seed else self.region_bytes)
        for token, cell in enumerate(self.owned):
            for tensor in self.tensors:
                base = mix(mix((nonce + STEP) % WORD) ^ (tensor.layer << 33 | tensor.role << 32 | token))
                for byte, value in enumerate(pattern(base, tensor.row_bytes)):
                    found[at(tensor, cell, byte)] = value
        return bytes(found)


def at(tensor: Tensor, cell: int, byte: int) -> int:
    if not tensor.channel_stride:
        return tensor.offset + cell * tensor.cell_stride + byte
    channel, rest = divmod(byte, tensor.element_bytes)
    return tensor.offset + channel * tensor.channel_stride + cell * tensor.cell_stride + rest


@st.composite
def tensors(draw: st.DrawFn, n_cells: int) -> tuple[tuple[Tensor, ...], int]:
    """K and V of one to three layers, each with its own row, padding or transposition, gaps between them."""
    found = []
    offset = draw(st.integers(0, 9))
    for layer in range(draw(st.integers(1, 3))):
        for role in (K, V):
            if role == V and draw(st.booleans()):
                size = draw(st.sampled_from([1, 2, 4, 8]))
                channels = draw(st.integers(1, 6))
                stride = size * (n_cells + draw(st.integers(0, 3)))
                found.append(Tensor(offset, size, stride, size * channels, size, layer, role))
                offset += stride * (channels - 1) + size * n_cells
            else:
                row = draw(st.one_of(st.integers(1, 40), st.sampled_from([64, 68, 136, 200])))
                stride = row + draw(st.sampled_from([0, 0, 0, 1, 8, 64]))
                found.append(Tensor(offset, stride, 0, row, 0, layer, role))
                offset += stride * (n_cells - 1) + row
            offset += draw(st.sampled_from([0, 0, 0, 1, 7, 70]))
    return tuple(found), offset


@st.composite
def runs(draw: st.DrawFn, n_cells: int) -> tuple[tuple[int, int], ...]:
    cuts = draw(st.lists(st.integers(0, n_cells), unique=True, max_size=8).map(sorted))
    return tuple((first, end - first) for first, end in zip(cuts[::2], cuts[1::2], strict=False))


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    n_cells = draw(st.integers(1, 24))
    found, end = draw(tensors(n_cells))
    owned = draw(runs(n_cells)) or ((0, n_cells),)
    return Shape(found, n_cells, end + draw(st.integers(0, 20)), owned)


def anonymous(shape: Shape) -> Region:
    return Region(-1, shape.region_bytes)


@BOUND
@given(shape=shapes(), nonce=NONCES, seed=NONCES, data=st.data())
def test_every_byte_is_what_the_model_says(shape: Shape, nonce: int, seed: int, data: st.DataObject) -> None:
    layout = shape.layout()
    kernel = rows.best_kernel(data.draw(st.sampled_from(rows.kernel_names())))
    with anonymous(shape) as region:
        rows.fill_guard(region, layout, seed, kernel)
        rows.write_rows(region, layout, nonce, kernel)
        assert bytes(region.view()) == shape.image(nonce, seed)
        assert rows.check_rows(region, layout, nonce, kernel) is None
        assert rows.check_guard(region, layout, seed, kernel=kernel) is None


@BOUND
@given(shape=shapes(), nonce=NONCES, seed=st.one_of(st.just(0), NONCES), data=st.data())
def test_one_wrong_byte_is_named(shape: Shape, nonce: int, seed: int, data: st.DataObject) -> None:
    layout, places, owned = shape.layout(), shape.places(), frozenset(shape.owned)
    foreign = [where for where, place in places.items() if place.cell not in owned]
    anywhere = st.integers(0, shape.region_bytes - 1)
    where = data.draw(st.one_of(anywhere, st.sampled_from(foreign)) if foreign else anywhere)
    kernel = rows.best_kernel(data.draw(st.sampled_from(rows.kernel_names())))
    with anonymous(shape) as region:
        rows.fill_guard(region, layout, seed)
        rows.write_rows(region, layout, nonce)
        region.view()[where] ^= data.draw(st.integers(1, 255))
        row = rows.check_rows(region, layout, nonce, kernel)
        guard = rows.check_guard(region, layout, seed, kernel=kernel)
    place = places.get(where)
    if place is not None and place.cell in owned:
        assert guard is None
        found = row
    else:
        assert row is None
        found = guard
    assert found is not None
    assert (found.at, found.extents, found.guard) == (where, 1, found is guard)
    if place is not None:
        named = (found.layer, found.role, found.cell, found.byte, found.inside)
        assert named == (place.tensor.layer, place.tensor.role, place.cell, place.byte, True)


def test_the_difference_says_what_and_where(region: Callable[[int], Region]) -> None:
    tensors_ = (Tensor(0, 100, 0, 100, 0, 0, K), Tensor(1000, 60, 0, 60, 0, 0, V))
    layout = Layout(tensors_, 10, 4096, [(2, 3)])
    one = region(4096)
    for where, said in (
        (250, "wrong row: layer 0 K cell 2 byte 50"),
        (1199, "wrong row: layer 0 V cell 3 byte 19"),
        (1599, "overwritten: layer 0 V cell 9 byte 59, which must not be written"),
        (4000, "overwritten: region byte 4000, which must not be written"),
    ):
        rows.fill_guard(one, layout, 7)
        rows.write_rows(one, layout, 3)
        one.view()[where] ^= 0x80
        found = rows.check_rows(one, layout, 3) or rows.check_guard(one, layout, 7)
        assert str(found) == said


def test_the_difference_names_the_channels_byte_where_v_is_transposed(
    region: Callable[[int], Region],
) -> None:
    layout = Layout([Tensor(64, 2, 20, 12, 2, 3, V)], 8, 4096, [(0, 5)])
    one = region(4096)
    for where, said in (
        (64 + 4 * 20 + 2 * 2 + 1, "wrong row: layer 3 V cell 2 byte 9"),
        (64 + 4 * 20 + 6 * 2 + 1, "overwritten: layer 3 V cell 6 byte 9, which must not be written"),
    ):
        rows.fill_guard(one, layout, 7)
        rows.write_rows(one, layout, 3)
        one.view()[where] ^= 0x80
        found = rows.check_rows(one, layout, 3) or rows.check_guard(one, layout, 7)
        assert str(found) == said


def test_every_wrong_extent_is_counted(region: Callable[[int], Region]) -> None:
    layout = Layout([Tensor(0, 16, 0, 16, 0, 0, K)], 8, 4096, [(0, 2), (4, 2)])
    one = region(4096)
    rows.write_rows(one, layout, 1)
    found = rows.check_rows(one, layout, 2)
    assert found is not None
    assert (found.cell, found.byte, found.extents) == (0, 0, 2)


@BOUND
@given(nonce=NONCES, other=NONCES, layer=st.integers(0, 100), token=st.integers(0, 100_000))
def test_rows_differ_by_request_layer_role_and_token(nonce: int, other: int, layer: int, token: int) -> None:
    base = lib.zc_row_base(nonce, layer, K, token)
    others = [(nonce, layer, V, token), (nonce, layer + 1, K, token), (nonce, layer, K, token + 1)]
    if other != nonce:
        others.append((other, layer, K, token))
    assert base not in [lib.zc_row_base(*each) for each in others]


@BOUND
@given(shape=shapes())
def test_the_request_is_counted(shape: Shape) -> None:
    layout = shape.layout()
    tokens = len(shape.owned)
    assert layout.tokens == tokens
    assert layout.payload == tokens * sum(tensor.row_bytes for tensor in shape.tensors)


@st.composite
def packed_pairs(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """A cache, and the packed source of its request: token i is cell i, back to back."""
    target = draw(shapes())
    tokens, offset, found = len(target.owned), 0, []
    for tensor in target.tensors:
        transposed = tensor.channel_stride > 0
        stride = tensor.element_bytes if transposed else tensor.row_bytes
        channel = tensor.element_bytes * tokens if transposed else 0
        found.append(replace(tensor, offset=offset, cell_stride=stride, channel_stride=channel))
        offset += tensor.row_bytes * tokens
    return target, Shape(tuple(found), tokens, offset, ((0, tokens),))


@BOUND
@given(pair=packed_pairs(), nonce=NONCES, seed=NONCES)
def test_copying_moves_the_rows_and_nothing_else(pair: tuple[Shape, Shape], nonce: int, seed: int) -> None:
    target, source = pair
    with anonymous(target) as to, anonymous(source) as from_:
        rows.fill_guard(to, target.layout(), seed)
        rows.write_rows(from_, source.layout(), nonce)
        assert rows.copy_rows(to, target.layout(), from_, source.layout()) == target.layout().payload
        assert bytes(to.view()) == target.image(nonce, seed)


ROW = Tensor(0, 16, 0, 16, 0, 0, K)


def test_only_a_packed_source_of_the_same_rows_can_be_copied(region: Callable[[int], Region]) -> None:
    to, from_ = region(4096), region(4096)
    target = Layout([ROW], 8, 4096, [(0, 2), (4, 2)])
    for tensor, owned in (
        (ROW, [(0, 3)]),
        (ROW, [(1, 4)]),
        (replace(ROW, cell_stride=32), [(0, 4)]),
        (replace(ROW, row_bytes=8, cell_stride=8), [(0, 4)]),
        (replace(ROW, layer=1), [(0, 4)]),
        (replace(ROW, role=V), [(0, 4)]),
    ):
        with pytest.raises(NativeError) as caught:
            rows.copy_rows(to, target, from_, Layout([tensor], 8, 4096, owned))
        assert caught.value.name == "EINVAL"
    assert bytes(to.view()) == bytes(4096)


def test_model_rows_do_not_repeat() -> None:
    """The model itself: no two neighbouring rows look alike, or a row out of place would go unseen."""
    bases = [mix(mix((9 + STEP) % WORD) ^ (layer << 33 | role << 32 | token))
             for layer in range(3) for role in (K, V) for token in range(5)]  # fmt: skip
    found = [pattern(base, 64) for base in bases]
    assert len(set(found)) == len(found)
    assert all(one[:8] != other[:8] for one, other in pairwise(found))
