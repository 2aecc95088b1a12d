"""How values are kept in columns: JSON as text, samples as packed integers."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from zcopy.model import Json

_NARROW: Final = range(-(1 << 31), 1 << 31)


def _plain(value: object) -> object:
    """What `json` does not know by itself: mappings and sequences that are no dict, list or tuple."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def json_text(value: Json, *, sort_keys: bool = False) -> str:
    """`value` as ASCII JSON, so that even a file name that is not UTF-8 can be kept in a text column.

    Raises ValueError on NaN and infinities, which no document of ours may hold.
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain, sort_keys=sort_keys)


def json_value(text: str) -> Any:
    """The value of `json_text`. Raises ValueError on text that is no JSON."""
    return json.loads(text)


def digest(value: Json) -> bytes:
    """16 bytes that are equal for equal documents, whatever the order of their keys."""
    return blake2b(json_text(value, sort_keys=True).encode(), digest_size=16).digest()


def plain_text(text: str) -> str:
    """`text` with what UTF-8 cannot carry (bytes of a foreign file name) written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def pack(samples: Sequence[int]) -> bytes:
    """Samples (ns) as little-endian integers: 4 bytes each where all are below 2.1 s, else 8."""
    narrow = all(sample in _NARROW for sample in samples)
    packed = array("i" if narrow else "q", samples)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(count: int, packed: bytes) -> tuple[int, ...]:
    """The `count` samples of `pack`. Raises ValueError where the bytes do not hold that many."""
    width = len(packed) // count if count else 4
    if len(packed) != count * width or width not in (4, 8):
        raise ValueError(f"{len(packed)} bytes do not hold {count} samples")
    samples = array("i" if width == 4 else "q")
    samples.frombytes(packed)
    if sys.byteorder == "big":
        samples.byteswap()
    return tuple(samples)
