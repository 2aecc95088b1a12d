"""Numbers with units as logs write them, each turned into the one unit that zcopy keeps of its kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zcopy.units import GIB, KIB, MIB

_TIMES: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_SIZES: Final = {
    "B": 1, "byte": 1, "bytes": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": GIB << 10,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_COUNTS: Final = ("", "tokens", "token", "cells", "rows", "runs")
_TOKEN_RATES: Final = ("tokens/s", "tok/s", "t/s")


class DoubtError(Exception):
    """A line has the form of one that is known and says what cannot be; the text says what."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit is kept as, by which factor, and more than which there cannot be."""

    kept: str
    factor: float
    most: float


def _table() -> Mapping[str, Unit]:
    """A day, a PiB, a count that a double does not hold, rates beyond any memory: what is more is no measurement."""
    return MappingProxyType(
        {
            **{name: Unit("ns", factor, 86400e9) for name, factor in _TIMES.items()},
            **{name: Unit("bytes", factor, 1 << 50) for name, factor in _SIZES.items()},
            **{f"{name}/s": Unit("GB/s", factor / 1e9, 1e6) for name, factor in _SIZES.items()},
            **{name: Unit("tokens/s", 1, 1e9) for name in _TOKEN_RATES},
            **{name: Unit("count", 1, 1 << 53) for name in _COUNTS},
            "%": Unit("%", 1, 1e6),
        }
    )


UNITS: Final = _table()
"""By their names in logs; the empty name is a plain number's."""

_DIGITS: Final = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_NUMBER: Final = re.compile(_DIGITS, re.ASCII)
_WITH_UNIT: Final = re.compile(rf"({_DIGITS})(\D*)", re.ASCII)
_NO_NUMBER: Final = re.compile(rf"(?i:[-+]?(?:nan|inf(?:inity)?))(?:{'|'.join(map(re.escape, UNITS))})")


@dataclass(frozen=True, slots=True)
class Quantity:
    """`unit` is ns or bytes (whole numbers), GB/s, tokens/s, count or %."""

    value: int | float
    unit: str


def quantity(number: str | float, unit: str = "") -> Quantity:
    """The number in the unit that is kept. Raises KeyError for an unknown unit, ValueError for text that is no number,
    DoubtError for what is negative, not finite or absurdly large."""
    value = _value(number, unit)
    kept = UNITS[unit].kept
    return Quantity(round(value) if value == int(value) or kept in ("ns", "bytes") else value, kept)


def count(number: str | float) -> int:
    """A whole number of things. Raises DoubtError for anything else."""
    try:
        value = _value(number, "")
    except ValueError as error:
        raise DoubtError(f"{str(number)[:40]} is no count") from error
    if value != int(value):
        raise DoubtError(f"{value} is no whole count")
    return int(value)


def nanoseconds(number: str | float, unit: str) -> int:
    """A time. Raises DoubtError for anything else."""
    try:
        return round(_value(number, unit))
    except (KeyError, ValueError) as error:
        raise DoubtError(f"{str(number)[:40]} {unit} is no time") from error


def _value(number: str | float, unit: str) -> float:
    known = UNITS[unit]
    if isinstance(number, str) and not _NUMBER.fullmatch(
        number
    ):  # float() takes 1_000 and digits of all scripts
        raise ValueError(number)
    value = float(number) * known.factor
    if not 0 <= value <= known.most:  # neither is true of NaN
        raise DoubtError(f"{str(number)[:40]} {unit}".rstrip() + " cannot be")
    return value


def is_no_number(text: str) -> bool:
    """Whether it says NaN or infinity, with or without a sign and a unit."""
    return _NO_NUMBER.fullmatch(text) is not None


def split_unit(text: str) -> tuple[str, str] | None:
    """``1.2ms`` → (1.2, ms), ``16`` → (16, ""); None where it is not a number with a known unit or without one."""
    found = _WITH_UNIT.fullmatch(text)
    return (found[1], found[2]) if found and found[2] in UNITS else None
