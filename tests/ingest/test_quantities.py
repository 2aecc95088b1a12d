"""Numbers with units, in the unit that is kept, or not at all."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.ingest.quantities import (
    UNITS,
    DoubtError,
    Quantity,
    count,
    is_no_number,
    nanoseconds,
    quantity,
    split_unit,
)

DAY_NS = 86400 * 10**9


@pytest.mark.parametrize(
    ("number", "unit", "value", "kept"),
    [
        ("0.122", "ms", 122_000, "ns"),
        ("3.1", "us", 3_100, "ns"),
        ("3.1", "µs", 3_100, "ns"),  # the micro sign
        ("3.1", "μs", 3_100, "ns"),  # the Greek letter
        ("1e3", "ns", 1_000, "ns"),
        ("2", "s", 2 * 10**9, "ns"),
        ("648", "MiB", 648 << 20, "bytes"),
        ("1.5", "KiB", 1536, "bytes"),
        ("1", "GB", 10**9, "bytes"),
        ("36", "B", 36, "bytes"),
        ("10.2", "GB/s", 10.2, "GB/s"),
        ("500", "MB/s", 0.5, "GB/s"),
        ("1", "GiB/s", 1.073741824, "GB/s"),
        ("899.85", "tokens/s", 899.85, "tokens/s"),
        ("16", "", 16, "count"),
        ("16", "cells", 16, "count"),
        ("0.5", "", 0.5, "count"),
        ("12", "%", 12, "%"),
    ],
)
def test_units(number: str, unit: str, value: float, kept: str) -> None:
    assert quantity(number, unit) == Quantity(value, kept)


@pytest.mark.parametrize(
    ("number", "unit"),
    [
        ("-1", "ms"), ("86400.1", "s"), ("1e300", "ns"), ("1e999", "ms"), ("2e6", "GB"), ("2e15", "B"),
        ("1e7", "GB/s"), ("1e10", "t/s"), ("1e17", ""), ("-0.5", ""), (float("nan"), "ms"), (float("inf"), ""),
    ],
)  # fmt: skip
def test_what_cannot_be(number: str | float, unit: str) -> None:
    with pytest.raises(DoubtError):
        quantity(number, unit)


@pytest.mark.parametrize("number", ["1_000", "١٢", "0x10", "1,5", "", "ms", "1 2", "nan", "infinity"])
def test_what_is_no_number(number: str) -> None:
    with pytest.raises(ValueError):
        quantity(number, "ms")
    with pytest.raises(DoubtError):
        nanoseconds(number, "ms")
    with pytest.raises(DoubtError):
        count(number)


def test_an_unknown_unit_is_told_from_a_wrong_number() -> None:
    with pytest.raises(KeyError):
        quantity("1", "furlongs")
    with pytest.raises(DoubtError):
        nanoseconds("1", "furlongs")


def test_a_count_is_whole() -> None:
    assert count("307") == 307
    assert count("3.07e2") == 307
    with pytest.raises(DoubtError):
        count("307.5")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1.2ms", ("1.2", "ms")), ("16", ("16", "")), ("-1ms", ("-1", "ms")), (".5us", (".5", "us")),
        ("1e3ns", ("1e3", "ns")), ("10.2GB/s", ("10.2", "GB/s")), ("5%", ("5", "%")), ("1.2foo", None),
        ("ms", None), ("12:03:01", None), ("0x10", None), ("1.2.3", None), ("", None),
    ],
)  # fmt: skip
def test_splitting(text: str, parts: tuple[str, str] | None) -> None:
    assert split_unit(text) == parts


def test_no_numbers() -> None:
    assert all(map(is_no_number, ("nan", "-nan", "NaNms", "inf", "-Infinity", "infus")))
    assert not any(map(is_no_number, ("nano", "info", "infer", "1", "")))


@given(st.decimals(0, DAY_NS // 10**6, places=6))
def test_milliseconds_are_exact_to_the_nanosecond(ms: object) -> None:
    assert nanoseconds(str(ms), "ms") == Fraction(str(ms)) * 10**6


@given(st.text(max_size=20), st.sampled_from(sorted(UNITS)))
def test_any_text_is_a_quantity_or_refused(text: str, unit: str) -> None:
    try:
        found = quantity(text, unit)
    except (DoubtError, ValueError):
        return
    assert found.value >= 0
