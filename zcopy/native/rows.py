"""Layouts of KV rows, and writing, checking and copying them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from zcopy.native._zc import ffi, lib
from zcopy.native.calls import check
from zcopy.native.region import Region

K: Final = int(lib.ZC_ROLE_K)
V: Final = int(lib.ZC_ROLE_V)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One of a layer's two tensors; the fields and their order are the wire's (native/rows.h). Strides in bytes."""

    offset: int
    cell_stride: int
    channel_stride: int  # 0 where a cell's row is contiguous
    row_bytes: int
    element_bytes: int  # 0 where a cell's row is contiguous
    layer: int
    role: int  # K or V


class Layout:
    """Tensors inside a region of `region_bytes`, and the runs (first cell, count) that a request owns, ascending."""

    def __init__(
        self, tensors: Sequence[Tensor], n_cells: int, region_bytes: int, runs: Sequence[tuple[int, int]]
    ) -> None:
        """Raises NativeError: EINVAL for strides and orders that make no sense, ERANGE for rows outside the region."""
        self.tensors, self.runs = tuple(tensors), tuple(runs)
        self._keep = (
            ffi.new("zc_tensor[]", [astuple(tensor) for tensor in tensors]),
            ffi.new("zc_run[]", list(self.runs)),
        )
        self.raw = ffi.new("zc_layout *")
        self.raw.region_bytes = region_bytes
        self.raw.tensors, self.raw.runs = self._keep
        self.raw.n_tensors, self.raw.n_cells, self.raw.n_runs = len(tensors), n_cells, len(runs)
        check(lib.zc_layout_check(self.raw))

    @property
    def n_cells(self) -> int:
        return int(self.raw.n_cells)

    @property
    def region_bytes(self) -> int:
        return int(self.raw.region_bytes)

    @property
    def tokens(self) -> int:
        return int(lib.zc_layout_tokens(self.raw))

    @property
    def payload(self) -> int:
        """Bytes of all rows of the request."""
        return int(lib.zc_layout_payload(self.raw))

    @property
    def state_bytes(self) -> int:
        """Bytes of the sequence-state file of the request."""
        return int(lib.zc_state_bytes(self.raw))

    @property
    def tensor_bytes(self) -> bytes:
        return bytes(ffi.buffer(self._keep[0]))


@dataclass(frozen=True, slots=True)
class Difference:
    """The first wrong byte: of a row (`guard` False), or one that nobody may write."""

    at: int
    guard: bool
    layer: int
    role: int
    cell: int
    byte: int
    inside: bool  # `at` belongs to a tensor's cell
    extents: int  # how many stretches were wrong in all

    def __str__(self) -> str:
        where = f"layer {self.layer} {'KV'[self.role]} cell {self.cell} byte {self.byte}"
        if not self.guard:
            return f"wrong row: {where}"
        return f"overwritten: {where if self.inside else f'region byte {self.at}'}, which must not be written"


def best_kernel(name: str = "") -> Any:
    """The named rows kernel, or the best one here. Raises ValueError where this CPU or build lacks it."""
    kernel = lib.zc_kernel_find(name.encode())
    if kernel == ffi.NULL:
        raise ValueError(f"no kernel {name!r} on this CPU (there are: {', '.join(kernel_names())})")
    return kernel


def kernel_names() -> list[str]:
    """The rows kernels of this build that this CPU can run, best first."""
    names: list[str] = []
    while (kernel := lib.zc_kernel_at(len(names))) != ffi.NULL:
        names.append(ffi.string(kernel.name).decode())
    return names


def write_rows(region: Region, layout: Layout, nonce: int, kernel: Any = None) -> None:
    """Writes every row of the request with the pattern of (nonce, layer, K or V, token, element)."""
    check(lib.zc_rows_write(region.pointer, layout.raw, nonce, kernel or best_kernel()))


def _difference(raw: Any) -> Difference | None:
    if not raw.wrong_extents:
        return None
    return Difference(
        raw.at, raw.kind == 2, raw.layer, raw.role, raw.cell, raw.byte, bool(raw.inside), raw.wrong_extents
    )


def check_rows(region: Region, layout: Layout, nonce: int, kernel: Any = None) -> Difference | None:
    """The first byte of the request's rows that differs from the pattern, or None."""
    out = ffi.new("zc_difference *")
    check(lib.zc_rows_check(region.pointer, layout.raw, nonce, kernel or best_kernel(), out))
    return _difference(out)


def fill_guard(region: Region, layout: Layout, seed: int, kernel: Any = None) -> None:
    """Fills every byte that the request does not own with the guard of `seed` (0: zero bytes)."""
    check(lib.zc_guard_fill(region.pointer, layout.raw, seed, kernel or best_kernel()))


def check_guard(
    region: Region, layout: Layout, seed: int, *, holes: bool = False, kernel: Any = None
) -> Difference | None:
    """The first byte outside the request's rows that differs from the guard, or None.

    With `holes`, the region's holes (SEEK_DATA) count as zero bytes and are not read, so they stay holes.
    """
    out = ffi.new("zc_difference *")
    fd = region.fd if holes else -1
    check(lib.zc_guard_check(region.pointer, layout.raw, seed, fd, kernel or best_kernel(), out))
    return _difference(out)


def copy_rows(to: Region, target: Layout, source: Region, packed: Layout) -> int:
    """Copies every row of a packed source to the same token's row of `to`; the bytes. Raises NativeError EINVAL."""
    return check(lib.zc_rows_copy(to.pointer, target.raw, source.pointer, packed.raw))


def receive_rows(pipe: int, socket: int, timeout_ms: int, to: Region, target: Layout) -> int:
    """Reads a packed source's stream from a pipe that does not block into place; the bytes.

    Raises NativeError: ENODATA where it ends early or `socket` says done before all rows came, ETIMEDOUT.
    """
    return check(lib.zc_rows_receive(pipe, socket, timeout_ms, to.pointer, target.raw))


def positions(count: int) -> Any:
    """Room for `count` positions, filled 0, 1, 2 …"""
    return ffi.new("int32_t[]", list(range(count)))
