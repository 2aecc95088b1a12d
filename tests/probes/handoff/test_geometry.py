"""Bytes of cells and regions, and where llama.cpp's buffer puts each tensor."""

from __future__ import annotations

import pytest

from zcopy.errors import UsageError
from zcopy.native.rows import K, Layout, V
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache, Geometry, default_ctx
from zcopy.units import MIB


def cache(name: str = "qwen3-4b", k: str = "f16", v: str = "f16", **more: object) -> Cache:
    return Cache(PRESETS[name], TYPES[k], TYPES[v], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "cell", "regions"),
    [("qwen3-4b", 147_456, (648, 1152, 2880)), ("qwen3-30b-a3b", 98_304, (432, 768, 1920))],
)
def test_the_presets_are_to_the_byte(name: str, cell: int, regions: tuple[int, ...]) -> None:
    assert cache(name).cell_bytes == cell
    found = [cache(name).tensors(default_ctx(cells))[1] for cells in (307, 4105, 16399)]
    assert found == [mib * MIB for mib in regions]


def test_tiny_is_a_few_mebibytes() -> None:
    assert cache("tiny").tensors(default_ctx(307))[1] <= 16 * MIB


@pytest.mark.parametrize(
    ("cells", "ctx"),
    [
        (307, 4608),
        (4105, 8192),
        (16399, 20480),
        (1, 4096),
        (255, 4096),
        (256, 4608),
        (512, 4608),
        (767, 4608),
    ],
)
def test_the_default_ctx_is_the_nearest_multiple(cells: int, ctx: int) -> None:
    assert default_ctx(cells) == ctx


@pytest.mark.parametrize(
    ("name", "elements", "size"),
    [("f32", 128, 512), ("f16", 128, 256), ("bf16", 128, 256), ("q8_0", 128, 136), ("q4_0", 128, 72),
     ("f16", 1024, 2048), ("q8_0", 1024, 1088), ("q4_0", 1024, 576), ("q8_0", 32, 34), ("f32", 1, 4)],
)  # fmt: skip
def test_rows_of_every_type(name: str, elements: int, size: int) -> None:
    assert TYPES[name].row_bytes(elements) == size


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
def test_rows_are_whole_blocks(name: str) -> None:
    with pytest.raises(UsageError, match="48 elements is not whole"):
        TYPES[name].row_bytes(48)


def test_type_numbers_are_ggmls() -> None:
    assert {name: kind.number for name, kind in TYPES.items()} == {
        "f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8, "bf16": 30,
    }  # fmt: skip


def test_tensors_lie_back_to_back_k_before_v() -> None:
    uneven = Cache(Geometry("uneven", ((64, 32), (96, 128)), 32, 32), TYPES["f16"], TYPES["q8_0"])
    tensors, end = uneven.tensors(10)
    assert [(t.layer, t.role, t.offset, t.row_bytes) for t in tensors] == [
        (0, K, 0, 128), (0, V, 1280, 34), (1, K, 1620, 192), (1, V, 3540, 136),
    ]  # fmt: skip
    assert end == 3540 + 10 * 136
    assert {(t.cell_stride == t.row_bytes, t.channel_stride, t.element_bytes) for t in tensors} == {
        (True, 0, 0)
    }
    assert uneven.cell_bytes * 10 == end


def test_transposed_v_runs_along_the_cells() -> None:
    """Element (cell i, channel j) lies at (j * n_ctx + i) * size."""
    turned = cache("tiny", v_trans=True)
    (k, v, *_), end = turned.tensors(100)
    assert (k.cell_stride, k.channel_stride) == (256, 0)
    assert (v.offset, v.cell_stride, v.channel_stride, v.element_bytes, v.row_bytes) == (
        25600,
        2,
        200,
        2,
        256,
    )
    assert end == cache("tiny").tensors(100)[1]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("turned", [False, True])
def test_every_layout_is_sound(kind: str, turned: bool) -> None:
    if turned and TYPES[kind].block > 1:
        with pytest.raises(UsageError, match="no transposed quantised V"):
            cache("tiny", kind, kind, v_trans=True)
        return
    tensors, size = cache("tiny", kind, kind, v_trans=turned).tensors(33)
    assert Layout(tensors, 33, size, [(0, 33)]).payload == size


@pytest.mark.parametrize(
    ("k", "v", "rotation", "side"),
    [("f16", "f16", (0, 0), None), ("q8_0", "f16", (0, 0), "K"), ("f16", "q4_0", (0, 0), "V"),
     ("q8_0", "q8_0", (64, 0), "V"), ("q8_0", "q8_0", (64, 64), None), ("q4_0", "f32", (128, 0), None)],
)  # fmt: skip
def test_quantised_rows_need_their_rotation_stated(
    k: str, v: str, rotation: tuple[int, int], side: str | None
) -> None:
    reason = cache("tiny", k, v, rotation=rotation).unstated_rotation()
    assert (reason is None) == (side is None)
    if side:
        assert f"{side} cache with heads of 64" in str(reason)
        assert f"--n-rot-{side.lower()}" in str(reason)


def test_heads_that_are_never_rotated_need_nothing() -> None:
    odd = Cache(Geometry.uniform("odd", 1, 2, 96, 96), TYPES["q8_0"], TYPES["q8_0"])
    assert odd.unstated_rotation() is None


@pytest.mark.parametrize(
    ("numbers", "option"),
    [((0, 1, 1, 1), "layers"), ((801, 1, 1, 1), "layers"), ((1, 0, 1, 1), "kv-heads"), ((1, 4097, 1, 1), "kv-heads"),
     ((1, 1, 0, 1), "head-dim"), ((1, 1, 65537, 1), "head-dim"), ((1, 1, 1, -1), "head-dim-v")],
)  # fmt: skip
def test_absurd_numbers_are_wrong_words(numbers: tuple[int, int, int, int], option: str) -> None:
    with pytest.raises(UsageError, match=f"--{option} "):
        Geometry.uniform("absurd", *numbers)
