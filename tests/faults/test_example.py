"""The provider that docs/protocol.md shows, against the real decoder; and the page itself against the code."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.model import Outcome, Row
from zcopy.native import wire

DOCS = Path(__file__).parents[2] / "docs"
Measure = Callable[..., list[Row]]

BODIES = {
    "HELLO": wire.HELLO,
    "TENSORS": wire.TENSORS,
    "REGION": wire.REGION,
    "MAPPED": wire.MAPPED,
    "RUNS": wire.RUNS,
    "BEGIN": wire.BEGIN,
    "DONE": struct.Struct("<IIQQQQQQQ"),
    "DROP": wire.SLOT,
    "DROPPED": wire.SLOT,
    "PIPE": struct.Struct(""),
    "REFUSE": wire.REFUSE,
    "BYE": struct.Struct(""),
}


@pytest.mark.usefixtures("nothing_left")
def test_it_serves_the_routes_that_write(example: tuple[str, ...], measure: Measure) -> None:
    rows = measure(
        example, routes=("shared", "copy"), regions=("reused", "fresh"), passing=("scm", "inherit")
    )
    assert len(rows) == 5
    for row in rows:
        assert (row.outcome, row.reason, row.verified) == (Outcome.OK, None, True)


@pytest.mark.usefixtures("nothing_left")
def test_a_row_of_it_is_not_taken_for_one_of_ours(example: tuple[str, ...], measure: Measure) -> None:
    for row in measure(example):
        assert row.case["provider"] == "command"
        assert row.extra["key"] == {"writer": "example", "provider_cmd": list(example)}


@pytest.mark.usefixtures("nothing_left")
def test_it_serves_scattered_cells(example: tuple[str, ...], measure: Measure) -> None:
    rows = measure(example, scatter=True)
    assert [row.outcome for row in rows] == [Outcome.OK] * 2


@pytest.mark.usefixtures("nothing_left")
def test_it_refuses_what_it_does_not_do(example: tuple[str, ...], measure: Measure) -> None:
    file, pipe = measure(example, routes=("file", "pipe"))
    assert file.reason == "the provider refused: this provider only writes, and only what is right"
    assert pipe.reason == "the provider refused: this provider does not do messages of type 10"


@pytest.mark.usefixtures("nothing_left")
def test_a_wrapper_around_it_is_not_taken_for_it(example: tuple[str, ...], measure: Measure) -> None:
    """What the kernel says of memory and bytes is asked of the process that speaks, not of the shell around it."""
    rows = measure(("sh", "-c", '"$@"; exit $?', "sh", *example))
    assert [(row.outcome, row.reason) for row in rows] == [(Outcome.OK, None)] * 2


def test_it_is_short() -> None:
    assert len((DOCS / "provider_example.py").read_text().splitlines()) < 130


# The page: its tables are the code's.


def sections() -> dict[str, tuple[int, list[tuple[int, int]]]]:
    """Message name to its type number, and the (offset, bytes) rows of its table."""
    found = {}
    for title, number, text in re.findall(
        r"^### ([A-Z, ]+) \(([\d, ]+)\)\n(.*?)(?=^##|\Z)", (DOCS / "protocol.md").read_text(), re.M | re.S
    ):
        table = [(int(at), int(size)) for at, size in re.findall(r"^\| (\d+) \| (\d+) \|", text, re.M)]
        for name, kind in zip(title.split(", "), number.split(", "), strict=True):
            found[name] = (int(kind), table)
    return found


def test_every_message_has_its_section() -> None:
    assert {name: kind for name, (kind, _) in sections().items()} == {
        kind.name: kind.value for kind in wire.Type
    }


@pytest.mark.parametrize("name", BODIES)
def test_every_field_has_its_line(name: str) -> None:
    """In order, without a gap, each as long as the code's."""
    _, table = sections()[name]
    fields = [
        struct.calcsize("<" + each) for each in re.findall(r"\d*[a-zA-Z]", BODIES[name].format.lstrip("<"))
    ]
    at = wire.HEAD.size
    for (offset, size), expected in zip(table, fields, strict=True):
        assert (offset, size) == (at, expected)
        at += size
    assert at == wire.HEAD.size + BODIES[name].size


def test_the_numbers_of_the_page() -> None:
    page = (DOCS / "protocol.md").read_text()
    assert f"protocol version {wire.VERSION}" in page
    assert f"`0x{wire.MAGIC:08X}`" in page
    assert f"{wire.MOST} bytes" in page
    assert f"{wire.RUNS_MOST} runs" in page
    for enum in (wire.Op, wire.Inject):
        for each in enum:
            name = "SOUND" if each is wire.Inject.NONE else each.name
            assert re.search(rf"^\| {each.value} \| {name} \|", page, re.M), each
