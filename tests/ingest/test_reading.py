"""From pieces to rows: lines however they are cut, samples however many, and what is left out counted."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.errors import Exit, Stopped
from zcopy.ingest.collect import Collector
from zcopy.ingest.lines import MOST_LINE, Splitter
from zcopy.ingest.quantities import Quantity
from zcopy.ingest.reading import Reading, Turn
from zcopy.ingest.record import Record
from zcopy.model import Outcome, Row

HANDOFF = b"shared KV handoff: %d cells, %s ms, 0 bytes copied\n"


def read(*pieces: bytes | Turn, by: frozenset[str] = frozenset()) -> Reading:
    reading = Reading(by)
    for piece in pieces:
        reading.take(piece)
    reading.end()
    return reading


def rows(*pieces: bytes | Turn) -> tuple[Row, ...]:
    return read(*pieces).collector.rows({})


@given(st.lists(st.binary(max_size=30)), st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_they_come(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(line.replace(b"\n", b"") for line in lines)
    splitter, found, at = Splitter(), [], 0
    for cut in cuts:
        found += splitter.feed(data[at : at + cut])
        at += cut
    found += splitter.feed(data[at:]) + splitter.end()
    whole = data.replace(b"\0", b"").split(b"\n")
    assert found == (whole if whole[-1] else whole[:-1])


def test_a_line_without_end_is_not_kept() -> None:
    splitter = Splitter()
    for _ in range(100):
        assert splitter.feed(b"x" * (MOST_LINE // 4)) == []
        assert sum(map(len, splitter._parts)) <= MOST_LINE
    assert splitter.feed(b"\nnext\n") == [None, b"next"]


def test_the_longest_line_and_one_byte_more() -> None:
    assert Splitter().feed(b"x" * MOST_LINE + b"\n") == [b"x" * MOST_LINE]
    assert Splitter().feed(b"x" * (MOST_LINE + 1) + b"\n") == [None]
    assert Splitter().feed(b"\n" + b"x" * (MOST_LINE + 1) + b"\n") == [b"", None]


def test_lines_of_one_case_become_one_row_with_every_sample_in_order() -> None:
    log = b"".join(HANDOFF % each for each in ((307, b"0.2"), (4105, b"1.9"), (307, b"0.1"), (307, b"0.3")))
    short, long = rows(log)
    assert short.case == {"route": "shared", "cells": 307}
    assert short.ns == {"adopt": (200_000, 100_000, 300_000)}
    assert long.ns == {"adopt": (1_900_000,)}
    assert (short.outcome, short.verified, short.bytes_copied, short.gbps) == (Outcome.OK, None, 0, None)
    assert short.extra == {
        "source": "log", "engine": "1bit", "lines": {"count": 3, "first": 1, "last": 4}, "not_in_log": ["bytes"],
        "phase_bytes": {"adopt": 0}, "ns_per_cell": round(200_000 / 307, 3),
        "key": {"source": "log", "engine": "1bit"},
    }  # fmt: skip


def test_what_was_stated_is_in_the_case_and_the_log_knows_better() -> None:
    reading = read(b"[ph] model=abc a=1ms\n" + HANDOFF % (3, b"1"))
    phase, handoff = reading.collector.rows({"model": "tiny", "buffer": "memfd"})
    assert handoff.case == {"model": "tiny", "buffer": "memfd", "route": "shared", "cells": 3}
    assert phase.case["model"] == "abc"


def test_copied_bytes_that_differ_are_told_by_the_largest_and_the_range() -> None:
    line = b"shared KV handoff: 3 cells, 1 ms, %d bytes copied\n"
    (row,) = rows(line % 0 + line % 4096)
    assert row.bytes_copied == 4096
    assert row.extra["phase_bytes_range"] == {"adopt": [0, 4096]}


def test_a_rate_is_that_of_the_state_that_was_read() -> None:
    save = b'{"n_saved":71,"n_written":1000000,"timings":{"save_ms":4.0}}\n'
    restore = b'{"n_restored":71,"n_read":1000000,"timings":{"restore_ms":2.0}}\n'
    (row,) = rows(save + restore)
    assert (row.rate_phase, row.gbps) == ("server_restore", 0.5)
    (row,) = rows(save + restore + restore.replace(b"1000000", b"2000000"))
    assert (row.gbps, row.bytes, row.extra["bytes_range"]) == (None, 2000000, [1000000, 2000000])


def test_a_case_is_the_same_in_whatever_order_its_line_tells_it() -> None:
    reading = read(b"[ph] M=16 op=qkv a=1ms\n[ph] op=qkv M=16 a=2ms\n", by=frozenset("M"))
    (row,) = reading.collector.rows({})
    assert row.ns == {"a": (1_000_000, 2_000_000)}


def test_other_numbers_and_fields_stay_beside_the_samples() -> None:
    (row,) = rows(b"[ph] M=16 k=p1 a=1ms\n[ph] M=128 k=p2 a=1ms\n[ph] M=16 k=p1 a=1ms\n[ph] M=1.5 a=1ms\n")
    assert row.extra["numbers"] == [
        {"name": "M", "unit": "count", "n": 4, "median": 16, "min": 1.5, "max": 128}
    ]
    assert row.extra["fields"] == {"k": ["p1", "p2"]}


def test_names_and_values_without_end_are_left_out_and_counted() -> None:
    log = b"".join(b"[ph] p%d=1ms f=x%d\n" % (i, i) for i in range(300))
    (row,) = rows(log)
    assert len(row.ns) == 256
    assert len(row.extra["fields"]["f"]) == 16  # type: ignore[call-overload, index, arg-type]
    assert row.extra["left_out"] == 300 - 256 + 300 - 16


def test_many_samples_are_thinned_evenly_and_few_are_not() -> None:
    collector = Collector(most_samples=1000)
    for number in range(10_000):
        collector.add(Record("e", {"c": 1}, {"long": number}), number)
        if number % 1000 == 0:
            collector.add(Record("e", {"c": 2}, {"short": number}), number)
    long, short = collector.rows({})
    assert collector.thinned
    assert short.ns["short"] == tuple(range(0, 10_000, 1000))
    told = long.extra["thinned"]["long"]  # type: ignore[call-overload, index]
    assert told == {"seen": 10_000, "every": 16}
    assert long.ns["long"] == tuple(range(0, 10_000, 16))
    assert "thinned" not in short.extra


def test_numbers_beside_the_samples_are_thinned_too() -> None:
    collector = Collector(most_samples=100)
    for number in range(1000):
        collector.add(Record("e", {}, others={"n": Quantity(number, "count")}), number)
    (row,) = collector.rows({})
    (told,) = row.extra["numbers"]  # type: ignore[misc]
    assert told["n"] == 1000  # type: ignore[call-overload, index]
    assert sum(sum(group.lengths()) for group in collector._groups.values()) <= 100


def test_cases_without_end_are_left_out_and_counted() -> None:
    collector = Collector(most_cases=3)
    for number in range(10):
        collector.add(Record("e", {"c": number % 5}, {"a": 1}), number)
    assert [row.case["c"] for row in collector.rows({})] == [0, 1, 2]
    assert collector.left_out == 4


def test_lines_that_are_not_understood_are_counted_and_told() -> None:
    told: list[tuple[int, str, str]] = []
    reading = Reading(unread=lambda *each: told.append(each))
    reading.take(b"hello\n" + HANDOFF % (3, b"nan") + HANDOFF % (3, b"1") + b"x" * (MOST_LINE + 1) + b"\n")
    reading.end()
    tally = reading.tally
    assert (tally.lines, tally.understood, tally.not_understood) == (4, 1, 3)
    assert (tally.doubtful, tally.too_long) == (1, 1)
    assert [(number, why != "") for number, _text, why in told] == [(1, False), (2, True), (4, True)]
    assert told[0][1] == "hello"


def test_a_line_in_which_a_signal_comes_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(HANDOFF % (3, b"1"))
    monkeypatch.setattr("zcopy.ingest.reading.parse", Mock(side_effect=Stopped(Exit.INTERRUPTED)))
    with pytest.raises(Stopped):
        reading.take(HANDOFF % (3, b"2"))
    assert (reading.tally.lines, reading.tally.not_understood) == (1, 0)


@pytest.mark.parametrize("turn", list(Turn))
def test_a_turn_at_the_end_of_a_line_costs_nothing(turn: Turn) -> None:
    reading = read(HANDOFF % (3, b"1"), turn)
    expected = 2 if turn is Turn.INSIDE else 1  # whatever follows it is a part of a line
    assert (reading.tally.understood, reading.tally.lines) == (1, expected)


def test_turns_in_the_middle_of_a_line() -> None:
    first, rest = b"shared KV handoff: 3 cells, 1", b" ms, 0 bytes copied"
    assert len(rows(first, Turn.IDLE, rest)) == 1
    assert rows(first, Turn.ROTATED, rest) == ()
    assert rows(first, Turn.TRUNCATED, rest) == ()
    assert rows(Turn.INSIDE, first + rest + b"\n") == ()
    assert len(rows(first + rest, Turn.ROTATED)) == 1  # a file's last line needs no end
    assert rows(first + rest, Turn.TRUNCATED) == ()  # it was cut away, and may have gone on
