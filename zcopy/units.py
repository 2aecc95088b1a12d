"""Sizes, rates and times as text, and text as sizes and times.

Sizes are binary (MiB), rates decimal (1 GB/s = 1e9 bytes/s), times integer nanoseconds.
"""

from __future__ import annotations

import re
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30

_SIZE_UNITS: Final = {
    "": 1, "b": 1,
    "k": KIB, "kib": KIB, "m": MIB, "mib": MIB, "g": GIB, "gib": GIB, "t": GIB << 10, "tib": GIB << 10,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_TIME_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "": 10**9, "s": 10**9,
    "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9,
}  # fmt: skip
_ON: Final = frozenset(("1", "true", "yes", "on"))
_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)


def is_on(switch: str) -> bool:
    """Whether the value of a switch in the environment turns it on: 1, true, yes and on do, all else (0) does not."""
    return switch.strip().lower() in _ON


def _parse(text: str, units: dict[str, int], what: str) -> int:
    match = _QUANTITY.fullmatch(text)
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a {what}")
    whole, _, fraction = match[1].partition(".")
    scaled = int(whole) * factor
    # Integer arithmetic all the way: 0.1 s is exactly 100000000 ns.
    return scaled + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)


def parse_size(text: str) -> int:
    """Bytes of ``4096``, ``64k``, ``1.5MiB``, ``2GB`` (k, m, g are binary; kb, mb, gb decimal).

    Raises ValueError for anything else, negative numbers included.
    """
    return _parse(text, _SIZE_UNITS, "size (try 4096, 64KiB, 1GiB)")


def parse_duration(text: str) -> int:
    """Nanoseconds of ``2s``, ``500ms``, ``10m``, ``1.5h``; a bare number is seconds.

    Raises ValueError for anything else, negative numbers included.
    """
    return _parse(text, _TIME_UNITS, "duration (try 500ms, 2s, 10m)")


def number_text(value: float) -> str:
    """Three significant digits, integers above a hundred whole, never an exponent: ``0.122``, ``5.56``, ``16399``."""
    size = abs(value)
    if value == 0:
        return "0"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 else _below_one(value)


def _below_one(value: float) -> str:
    text = f"{value:.3g}"
    digits, small, exponent = text.partition("e-")
    if not small:
        return text
    return f"{value:.{int(exponent) + len(digits.strip('-').replace('.', '')) - 1}f}"


def size_text(count: int) -> str:
    """``648 MiB``, ``2.81 GiB``, ``36 B``: binary units, exact when the unit divides the count."""
    for factor, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= factor:
            whole = count % factor == 0
            return f"{count // factor if whole else number_text(count / factor)} {name}"
    return f"{count} B"


def ms_text(ns: int | float) -> str:
    """Milliseconds with three significant digits: ``0.122``, ``5.56``, ``243``."""
    return number_text(ns / 1e6)


def duration_text(ns: int) -> str:
    """A span for people: ``850 ms``, ``2.5 s``, ``3 min 20 s``, ``1 h 05 min``."""
    if ns < 10**9:
        return f"{ms_text(ns)} ms"
    seconds = ns / 1e9
    if seconds < 60:
        return f"{number_text(seconds)} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def gbps(count: int, ns: int | float) -> float | None:
    """`count` bytes in `ns` nanoseconds, in GB/s (1e9 bytes/s); None where there is no rate."""
    return count / ns if count and ns > 0 else None
