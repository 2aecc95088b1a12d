"""A tensor's rows in the decoder's region against the same rows in a packed source."""

from __future__ import annotations

from typing import Any

from zcopy.native.rows import Tensor


def first_difference(
    region: memoryview, here: Tensor, source: memoryview, there: Tensor, cells: int
) -> str | None:
    """``cell C byte B`` of the first byte that differs in the first `cells` cells, or None."""
    import numpy as np

    ours, theirs = _lines(region, here, cells), _lines(source, there, cells)
    if np.array_equal(ours, theirs):
        return None
    line, at = (int(each) for each in np.argwhere(ours != theirs)[0])
    if not here.channel_stride:
        return f"cell {at // here.row_bytes} byte {at % here.row_bytes}"
    cell, rest = divmod(at, here.element_bytes)
    return f"cell {cell} byte {line * here.element_bytes + rest}"


def _lines(view: memoryview, tensor: Tensor, cells: int) -> Any:
    """The rows as one line where they are contiguous, as a line per channel where V is transposed."""
    import numpy as np

    if not tensor.channel_stride:
        size = tensor.row_bytes * cells
        return np.frombuffer(view[tensor.offset : tensor.offset + size], np.uint8).reshape(1, size)
    channels, width = tensor.row_bytes // tensor.element_bytes, tensor.element_bytes * cells
    whole = view[tensor.offset : tensor.offset + channels * tensor.channel_stride]
    return np.frombuffer(whole, np.uint8).reshape(channels, tensor.channel_stride)[:, :width]
