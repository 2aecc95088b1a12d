from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcopy.render import Format, Look, render
from zcopy.render.cells import cell_text
from zcopy.render.markdown import escape
from zcopy.table import Cell, Column, Kind, Report, Table
from zcopy.units import number_text

COLUMNS = (
    Column("run", "run", kind=Kind.ID, priority=0),
    Column("cells", "cells", kind=Kind.COUNT, priority=0),
    Column("total", "total", kind=Kind.NS),
    Column("first", "first", "µs", Kind.NS, 2),
    Column("region_bytes", "region", kind=Kind.BYTES, priority=2),
    Column("rate", "rate", kind=Kind.RATE, priority=2),
    Column("took", "took", kind=Kind.SPAN, priority=3),
    Column("verified", "verified", kind=Kind.FLAG, priority=3),
    Column("outcome", "outcome", kind=Kind.OUTCOME),
    Column("label", "label", priority=4),
)
FULL: dict[str, Cell] = {
    "run": "20261130-210000-7f3a", "cells": 16399, "total": 122_345, "first": 1500, "region_bytes": 648 << 20,
    "rate": 10.812, "took": 200 * 10**9, "verified": True, "outcome": "ok", "label": "[/x] [no copy]",
}  # fmt: skip
EMPTY: dict[str, Cell] = {"run": "20261130-210001-11ab", "rate": float("nan")}
TABLE = Table("handoff", COLUMNS, (FULL, EMPTY), ("shared → serves",), "median of 5")


def report(*tables: Table, document: dict[str, Any] | None = None, flat: Table | None = None) -> Report:
    return Report(tables, lambda: document or {}, flat)


def drawn(format: Format, table: Table = TABLE, **look: Any) -> str:
    return render(report(table), format, Look(**look))


def test_tsv_is_raw_and_whole() -> None:
    header, first, second = drawn(Format.TSV, width=10).splitlines()
    assert header.split("\t") == [
        "run", "cells", "total_ns", "first_ns", "region_bytes", "rate_gbps", "took_ns", "verified", "outcome",
        "label",
    ]  # fmt: skip
    assert first.split("\t") == [
        "20261130-210000-7f3a", "16399", "122345", "1500", "679477248", "10.812", "200000000000", "true",
        "ok", "[/x] [no copy]",
    ]  # fmt: skip
    assert second.split("\t") == ["20261130-210001-11ab", *[""] * 9]


def unescaped(cell: str) -> str:
    return cell.encode("latin-1", "backslashreplace").decode("unicode_escape")


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_tsv_cell_is_one_cell_and_comes_back(text: str) -> None:
    table = Table("t", (Column("a", "a"), Column("b", "b")), ({"a": text, "b": "end"},))
    header, line, rest = drawn(Format.TSV, table).split("\n")
    assert (header, rest) == ("a\tb", "")
    cell, end = line.split("\t")
    assert (unescaped(cell), end) == (text, "end")


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")))
def test_a_csv_cell_comes_back(text: str) -> None:
    table = Table("t", (Column("a", "a"), Column("b", "b")), ({"a": text, "b": "end"},))
    assert list(csv.reader(io.StringIO(drawn(Format.CSV, table), newline=""))) == [["a", "b"], [text, "end"]]


@pytest.mark.parametrize("format", [Format.TSV, Format.CSV])
def test_records_of_several_tables(format: Format) -> None:
    one = Table("one", (Column("a", "a"),), ({"a": 1},))
    two = Table("two", (Column("b", "b"),), ())
    assert render(report(one, two), format, Look()) == "a\n1\n\nb\n"
    assert render(report(one, two, flat=two), format, Look()) == "b\n"


def test_json_has_no_nan() -> None:
    text = render(
        report(document={"a": float("nan"), "b": {"c": [1.0, float("-inf")]}, "d": "nan", "é": None}),
        Format.JSON, Look(),
    )  # fmt: skip
    assert text.isascii()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse) == {
        "a": None, "a_reason": "not a finite number: nan",
        "b": {"c": [1.0, None], "c_reason": "not a finite number: -inf"},
        "d": "nan", "é": None,
    }  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), JSON))
def test_json_is_what_the_document_is(document: dict[str, Any]) -> None:
    assert json.loads(render(Report((), lambda: document), Format.JSON, Look())) == document


def test_samples_stand_on_one_line() -> None:
    text = render(report(document={"ns": {"total": [1, 2, 3]}}), Format.JSON, Look())
    assert '"total": [1, 2, 3]\n' in text


def test_other_formats_do_not_ask_for_the_document() -> None:
    def explode() -> dict[str, Any]:
        raise AssertionError

    for format in (Format.TABLE, Format.TSV, Format.CSV, Format.MD):
        assert render(Report((TABLE,), explode), format, Look())


def test_markdown() -> None:
    title, _, head, rule, first, second, _, caption, _, note = drawn(Format.MD).splitlines()
    assert (title, caption, note) == ("**handoff**", "median of 5", "shared → serves")
    assert head.startswith("| run | cells | total ms | first µs | region | rate GB/s |")
    assert rule == "| --- |" + " ---: |" * 6 + " --- |" * 3
    assert first.startswith(
        "| 20261130-210000-7f3a | 16399 | 0.122 | 1.50 | 648 MiB | 10.8 | 3 min 20 s | yes |"
    )
    assert first.endswith(r"| \[/x\] \[no copy\] |")
    assert second == "| 20261130-210001-11ab |" + " — |" * 9


def test_a_note_is_no_heading() -> None:
    assert drawn(Format.MD, Table("t", (), (), ("# x", "- y"))).endswith("\n\n\\# x\n\n\\- y\n")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"), ("memfd_thp", "memfd_thp"), ("_x_", r"\_x\_"), ("<b>", r"\<b>"), ("&lt;", r"\&lt;"),
        ("AT&T", "AT&T"), ("a`b`*", r"a\`b\`\*"), ("a\\b", r"a\\b"),
        ("# x", "# x"), ("-5.56", "-5.56"),
    ],
)  # fmt: skip
def test_markdown_escapes_only_markup(text: str, escaped: str) -> None:
    assert escape(text) == escaped


@pytest.mark.parametrize("width", [200, 100, 80, 40])
def test_a_table_is_as_wide_as_allowed_and_cuts_nothing_it_shows(width: int) -> None:
    text = drawn(Format.TABLE, width=width)
    assert max(map(len, text.splitlines())) <= width
    for whole in ("20261130-210000-7f3a", "20261130-210001-11ab", "16399"):
        assert whole in text
    assert "…" not in text
    assert ("Not shown" in text) is (width <= 100)


def test_the_least_important_columns_go_first_and_are_named() -> None:
    text = drawn(Format.TABLE, width=80)
    # 4, then 3 from the right: nothing more has to go.
    assert "Not shown at 80 columns: verified, label; a wider terminal or --format tsv does." in text
    assert "3 min 20 s" in text
    narrow = " ".join(drawn(Format.TABLE, width=40).split())
    assert "Not shown at 40 columns: first, region, rate, took, verified, outcome, label;" in narrow
    assert "0.122" in narrow


def test_what_must_stay_stays_even_where_it_does_not_fit() -> None:
    text = drawn(Format.TABLE, width=10)
    assert "20261130-210000-7f3a  16399" in text
    assert "total" in text.partition("Not shown")[2]


def test_without_a_width_nothing_wraps() -> None:
    table = Table(
        "t", (Column("a", "a"), Column("b", "b")), ({"a": "word " * 60, "b": "x"},), ("note " * 60,)
    )
    assert len(drawn(Format.TABLE, table).splitlines()) == 6


def test_words_wrap_and_are_not_cut() -> None:
    table = Table("t", (Column("a", "a", kind=Kind.ID), Column("b", "b")), ({"a": "id", "b": "word " * 30},))
    text = drawn(Format.TABLE, table, width=40)
    assert text.count("word") == 30
    assert max(map(len, text.splitlines())) <= 40


@pytest.mark.parametrize("format", [Format.TABLE, Format.MD])
def test_ascii_is_ascii(format: Format) -> None:
    text = drawn(format, ascii=True, width=200)
    assert text.isascii()
    assert "shared -> serves" in text
    assert " - " in text
    assert "first\n" in text or "first us" in text or "us" in text


@pytest.mark.parametrize("text", ["[/x] [no copy]", "[bold]x[/bold]", ":smile:", "[link=http://x]y[/link]"])
def test_outside_text_is_no_markup(text: str) -> None:
    table = Table(f"title {text}", (Column("label", "label"),), ({"label": text},), (f"note {text}",), text)
    shown = drawn(Format.TABLE, table, width=100, colour=True)
    assert shown.count(text) == 4


def test_outside_text_drives_no_terminal() -> None:
    table = Table("t\x1b[2J", (Column("label", "label"),), ({"label": "a\x1b[31m\tb\nc\x07"},), ("n\x9b",))
    text = drawn(Format.TABLE, table, width=100)
    assert not any(character in text for character in "\x1b\x07\x9b\t")
    assert r"a\x1b[31m\tb\nc\x07" in text


def test_colour_is_in_the_look_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    assert "\x1b" not in drawn(Format.TABLE, width=200)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[32mok" in drawn(Format.TABLE, width=200, colour=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1224, "0.122"),
        (5.56, "5.56"),
        (24.34, "24.3"),
        (243.4, "243"),
        (16399.4, "16399"),
        (-5.561, "-5.56"),
        (0.0001, "0.0001"),
        (3e-06, "0.000003"),
        (1.854e-05, "0.0000185"),
        (-2.5e-07, "-0.00000025"),
    ],
)
def test_number_text(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (0, Column("a", "a", kind=Kind.BYTES), "0 B"),
        (0, Column("a", "a", kind=Kind.NS), "0"),
        (None, Column("a", "a", kind=Kind.NS), "—"),
        (5_560_000, Column("a", "a", "ms", Kind.NS), "5.56"),
        (5_560, Column("a", "a", "ns", Kind.NS), "5560"),
        (2_500_000_000, Column("a", "a", "s", Kind.NS), "2.50"),
        (False, Column("a", "a", kind=Kind.FLAG), "no"),
        (float("inf"), Column("a", "a", kind=Kind.NUMBER), "—"),
        ("", Column("a", "a"), ""),
    ],
)
def test_cell_text(value: Cell, column: Column, text: str) -> None:
    assert cell_text(value, column, ascii=False) == text
