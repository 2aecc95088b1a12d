"""Names of runs: made of ``[a-z0-9-]``, sorting by time, long enough to be unique, short enough to type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

# Digits before letters, as in ASCII, so that text order is numeric order; i, l, o and u are left out because
# they are misread. Four of them count to 2**20, which is just above the microseconds of a second.
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_BITS: Final = 20


def _letters(value: int) -> str:
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(_BITS - 5, -1, -5))


def new_id(now: datetime, getrandbits: Callable[[int], int]) -> str:
    """``20261130-210501-x3f9k2m7``: the second of `now` in UTC, its microsecond, and 20 random bits."""
    second = now.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{second}-{_letters(now.microsecond)}{_letters(getrandbits(_BITS))}"
