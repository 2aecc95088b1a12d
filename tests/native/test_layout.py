"""Layouts that make no sense, or would leave their region, are refused before anything is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zcopy.native.calls import NativeError
from zcopy.native.rows import K, Layout, Tensor, V

WORD = 2**64
ROW = Tensor(0, 16, 0, 16, 0, 0, K)
TURNED = Tensor(0, 2, 32, 8, 2, 0, V)


@pytest.mark.parametrize(
    ("tensors_", "owned", "name"),
    [
        ([], [], "EINVAL"),
        ([replace(ROW, row_bytes=0)], [], "EINVAL"),
        ([replace(ROW, role=2)], [], "EINVAL"),
        ([replace(ROW, cell_stride=15)], [], "EINVAL"),
        ([replace(ROW, element_bytes=2)], [], "EINVAL"),
        ([replace(ROW, offset=4096)], [], "ERANGE"),
        ([replace(ROW, offset=4096 - 16 * 8 + 1)], [], "ERANGE"),
        ([replace(ROW, offset=WORD - 8)], [], "ERANGE"),
        ([replace(ROW, cell_stride=WORD // 7)], [], "ERANGE"),
        ([ROW, replace(ROW, offset=127)], [], "EINVAL"),
        ([replace(ROW, offset=128), ROW], [], "EINVAL"),
        ([replace(TURNED, element_bytes=0)], [], "EINVAL"),
        ([replace(TURNED, element_bytes=3)], [], "EINVAL"),
        ([replace(TURNED, element_bytes=16, row_bytes=16, cell_stride=16, channel_stride=256)], [], "EINVAL"),
        ([replace(TURNED, cell_stride=4)], [], "EINVAL"),
        ([replace(TURNED, channel_stride=15)], [], "EINVAL"),
        ([replace(TURNED, channel_stride=WORD // 3)], [], "ERANGE"),
        ([ROW], [(0, 0)], "EINVAL"),
        ([ROW], [(2, 2), (3, 1)], "EINVAL"),
        ([ROW], [(2, 2), (0, 1)], "EINVAL"),
        ([ROW], [(0, 9)], "ERANGE"),
        ([ROW], [(8, 1)], "ERANGE"),
        ([ROW], [(2**32 - 1, 2**32 - 1)], "ERANGE"),
    ],
)
def test_a_senseless_layout_is_refused(
    tensors_: list[Tensor], owned: list[tuple[int, int]], name: str
) -> None:
    with pytest.raises(NativeError) as caught:
        Layout(tensors_, 8, 4096, owned)
    assert caught.value.name == name


def test_a_layout_without_cells_is_refused() -> None:
    with pytest.raises(NativeError) as caught:
        Layout([ROW], 0, 4096, [])
    assert caught.value.name == "EINVAL"


def test_a_tensor_may_end_with_its_region() -> None:
    assert Layout([replace(ROW, offset=4096 - 128)], 8, 4096, [(7, 1)]).payload == 16
