"""Every rows kernel of this CPU writes and finds the same bytes, whatever the alignment and size."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zcopy.native import _zc, rows
from zcopy.native.region import Region
from zcopy.native.rows import K, Layout, Tensor

STEP = 0x9E3779B97F4A7C15


def pattern(base: int, count: int) -> bytes:
    """Words base + 1 step, base + 2 steps …, little endian."""
    words = ((base + j * STEP) % 2**64 for j in range(1, count // 8 + 2))
    return b"".join(word.to_bytes(8, "little") for word in words)[:count]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 64, 65, 127, 128, 191, 192, 200, 4095, 4096, 4097, 8200])
def test_all_kernels_write_the_same_bytes_at_every_alignment(size: int) -> None:
    """Alignment and size decide between the loops over words, over lines, and over the tail."""
    expected = pattern(_zc.lib.zc_row_base(77, 5, K, 0), size)
    with Region(-1, size + 128) as region:
        for start in (0, 1, 8, 12, 32, 56, 63):
            layout = Layout([Tensor(start, size, 0, size, 0, 5, K)], 1, size + 128, [(0, 1)])
            for name in rows.kernel_names():
                view = region.view()
                view[:] = b"\xee" * len(view)
                rows.write_rows(region, layout, 77, rows.best_kernel(name))
                assert bytes(view[start : start + size]) == expected, name
                assert set(view[:start]) | set(view[start + size :]) == {0xEE}, name


@pytest.mark.parametrize("name", rows.kernel_names())
def test_a_kernel_finds_the_first_of_several_wrong_bytes(name: str, region: Callable[[int], Region]) -> None:
    size = 9000
    layout = Layout([Tensor(3, size, 0, size, 0, 0, K)], 1, size + 3, [(0, 1)])
    one, kernel = region(size + 3), rows.best_kernel(name)
    rows.write_rows(one, layout, 1)
    for byte in (8999, 8192, 4096, 4095, 511, 8, 7, 0):
        one.view()[3 + byte] ^= 1
        found = rows.check_rows(one, layout, 1, kernel)
        assert found is not None
        assert (found.byte, found.extents) == (byte, 1)


def test_an_unknown_kernel_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no kernel 'mmx'.*base"):
        rows.best_kernel("mmx")


def test_the_base_kernel_is_always_there() -> None:
    assert rows.kernel_names()[-1] == "base"
    assert rows.best_kernel() == rows.best_kernel(rows.kernel_names()[0])
