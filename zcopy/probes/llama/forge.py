"""Rows without a prefill: small finite numbers that depend on every place, for caches of floating-point types."""

from __future__ import annotations

from typing import Final

from zcopy.errors import RefusedError
from zcopy.native import rows
from zcopy.native.region import Region
from zcopy.native.rows import Layout
from zcopy.probes.handoff.geometry import Cache

_CHUNK: Final = 64 << 20
# Bits that stay of the pattern, and bits that are set: sign and mantissa at random, an exponent that gives 2^-3 to
# 2^-2. For f32 (E8M23), f16 (E5M10) and bf16 (E8M7), IEEE 754.
_FINITE: Final = {
    "f32": ("u4", 0x807FFFFF, 0x3E000000),
    "f16": ("u2", 0x83FF, 0x3000),
    "bf16": ("u2", 0x807F, 0x3E00),
}


def forge_rows(source: Region, packed: Layout, cache: Cache, nonce: int) -> None:
    """Fills the packed source with rows that a decoder can go on from. Raises RefusedError for quantised types."""
    import numpy as np

    kinds = [_FINITE.get(kind.name) for kind in (cache.type_k, cache.type_v)]
    if None in kinds:
        raise RefusedError(
            f"--forge has no rows for {cache.type_k.name}/{cache.type_v.name}: quantised rows must come from a prefill"
        )
    rows.write_rows(source, packed, nonce)
    view = source.view()
    for tensor in packed.tensors:
        word, keep, put = kinds[tensor.role]  # type: ignore[misc]
        end = tensor.offset + tensor.row_bytes * packed.tokens
        for at in range(tensor.offset, end, _CHUNK):
            values = np.frombuffer(view[at : min(at + _CHUNK, end)], dtype=f"<{word}")
            values &= np.asarray(keep, values.dtype)
            values |= np.asarray(put, values.dtype)
