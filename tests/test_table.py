from __future__ import annotations

import pytest

from zcopy.table import Column, Kind, Report, Table


@pytest.mark.parametrize(
    ("key", "kind", "header"),
    [
        ("total", Kind.NS, "total_ns"), ("median_ns", Kind.NS, "median_ns"),
        ("ns_per_cell", Kind.NS, "ns_per_cell"),
        ("bytes_copied", Kind.BYTES, "bytes_copied"), ("memory", Kind.BYTES, "memory_bytes"),
        ("gbps", Kind.RATE, "gbps"), ("age", Kind.SPAN, "age_ns"), ("label", Kind.TEXT, "label"),
    ],
)  # fmt: skip
def test_units_stand_in_the_names(key: str, kind: Kind, header: str) -> None:
    assert Column(key, "x", kind=kind).header == header


def test_shown_units() -> None:
    assert Column("a", "a", kind=Kind.NS).shown_unit == "ms"
    assert Column("a", "a", "µs", Kind.NS).shown_unit == "µs"
    assert Column("a", "a", kind=Kind.RATE).shown_unit == "GB/s"
    assert Column("a", "a", kind=Kind.BYTES).shown_unit == ""


def test_a_column_twice_and_a_stray_key_are_errors() -> None:
    column = Column("a", "a")
    with pytest.raises(ValueError, match="twice"):
        Table("t", (column, column), ())
    with pytest.raises(ValueError, match="no column for \\['b'\\]"):
        Table("t", (column,), ({"b": 1},))


def test_cells_lacking_are_none() -> None:
    table = Table("t", (Column("a", "a"),), ({"a": 0}, {}))
    assert table.cells(table.columns[0]) == [0, None]


def test_records() -> None:
    one, two = Table("one", (), ()), Table("two", (), ())
    assert Report((one,), dict).records == (one,)
    assert Report((one,), dict, two).records == (two,)
