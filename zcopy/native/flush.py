"""Writing the CPU's caches back by line, from user space, for devices that do not snoop them."""

from __future__ import annotations

from typing import Any

from zcopy.native._zc import ffi, lib
from zcopy.native.fill import Span
from zcopy.native.region import Region


def flushers() -> list[str]:
    """The instructions that this CPU has for it, best first: clwb, clflushopt, clflush; cvac on ARM; none elsewhere."""
    found: list[str] = []
    while (raw := lib.zc_flusher_at(len(found))) != ffi.NULL:
        found.append(_name(raw))
    return found


def flush(region: Region, span: Span, how: str = "") -> int:
    """Writes back every line that holds a byte of `span`, between two fences; ns. `how` is one of `flushers`, the best.

    Raises ValueError for a span outside the region, and where this CPU has no such instruction.
    """
    if span.offset < 0 or span.size < 0 or span.end > region.size:
        raise ValueError(f"{span.size} bytes from {span.offset} on, of {region.size}")
    raw = lib.zc_flusher_find(how.encode())
    if raw == ffi.NULL:
        raise ValueError(f"this CPU cannot write its caches back by line{f' with {how}' if how else ''}")
    return int(lib.zc_flush(region.pointer + span.offset, span.size, raw))


def cache_line() -> int:
    """Bytes of a line of the cache, as the CPU says."""
    return int(lib.zc_cache_line())


def _name(raw: Any) -> str:
    text: bytes = ffi.string(raw.name)
    return text.decode()
