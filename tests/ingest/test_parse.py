"""No line, whatever it is, does more than be understood, doubted, or neither."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.ingest.parse import DoubtError, clean, parse
from zcopy.ingest.reading import Reading

# Pieces that the readers look for, so that what is drawn comes close to what they take.
PIECES = st.sampled_from(
    [
        b"shared KV handoff: ", b"307", b" cells, ", b"0.122", b" ms", b", 0 bytes copied", b"[ph] ", b"[prof] ",
        b"a=", b"nan", b"-", b"1e999", b"us ", b"prompt eval time =", b" eval time = ", b" / ", b" tokens", b"took ",
        b"prompt cache update took ", b'{"timings":{', b'"save_ms":1.5', b'"n_saved":3,', b'"n_written":9,', b"}}",
        b'{"log":"', b'"}', b"\x1b[31m", b"\x1b]0;", b"\xff\xfe", b"\xc2\xb5s", b"\t", b"\\n", b'"', b": ", b"\r",
    ]
)  # fmt: skip
LINES = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(PIECES, st.binary(max_size=4)), max_size=20).map(b"".join),
)


@given(LINES, st.frozensets(st.sampled_from(["a", "M", "stage"])))
def test_any_line(line: bytes, by: frozenset[str]) -> None:
    try:
        records = parse(line, by)
    except DoubtError as doubt:
        assert str(doubt)
        return
    for record in records:
        assert all(isinstance(ns, int) and 0 <= ns <= 86400 * 10**9 for ns in record.ns.values())
        assert hash(tuple(record.case.items()))  # a case can be told from others
        assert record.copied is None or record.copied >= 0


@given(st.lists(LINES, max_size=20))
def test_any_log_makes_rows_that_a_document_takes(lines: list[bytes]) -> None:
    reading = Reading(frozenset("aM"))
    reading.take(b"\n".join(lines))
    reading.end()
    rows = [row.document() for row in reading.collector.rows({"model": "tiny"})]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert reading.tally.understood + reading.tally.not_understood == reading.tally.lines


def test_colours_and_titles_go_and_what_cannot_be_decoded_is_marked() -> None:
    assert clean(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;u\x1b\\y \xff") == "red xy �"


@pytest.mark.parametrize(
    "part",
    [
        b"shared KV handoff: ", b"shared KV handoff: x cells, ", b"prompt eval time = ", b" time =" + b" " * 60,
        b"\x1b]", b"\x1b[", b"\x1b[0", b'{"timings"', b"[ph] a=", b"prompt cache update took ", b'{"log":', b"\\u00",
    ],
)  # fmt: skip
def test_long_lines_take_time_in_proportion(part: bytes) -> None:
    """Against an eighth of the same, with room for noise: a square would be 64 times as long."""

    def cost(size: int) -> float:
        line = part * (size // len(part))
        began = time.process_time()
        with contextlib.suppress(DoubtError):
            parse(line)
        return time.process_time() - began

    assert cost(1 << 20) < 40 * max(cost(1 << 17), 0.005)
