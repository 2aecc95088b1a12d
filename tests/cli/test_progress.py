from __future__ import annotations

import io

from zcopy.cli.progress import Progress, Step

SECOND = 10**9


def test_the_line_says_how_far_how_fast_and_what_is_left() -> None:
    assert Step("shared, 4105 cells", 3, 12, 6 * SECOND).line(80) == (
        "shared, 4105 cells  3/12  25 %  0.5/s  18.0 s left"
    )


def test_without_a_total_it_counts() -> None:
    assert Step("reading", 7, 0, SECOND).line(80) == "reading  7"
    assert Step("reading", 0, 0, 0).line(80) == "reading"


def test_the_figures_survive_a_narrow_terminal() -> None:
    line = Step("a very long text that does not fit", 3, 12, 6 * SECOND).line(40)
    assert len(line) == 39
    assert line.endswith("  3/12  25 %  0.5/s  18.0 s left")


def test_it_is_drawn_ten_times_a_second_at_most_and_always_at_the_end() -> None:
    stream, now = io.StringIO(), [0]
    progress = Progress(stream, 80, lambda: now[0])
    for step in range(101):
        now[0] = step * SECOND // 100
        progress("x", step, 100)
    assert stream.getvalue().count("\r") == 11
    assert "100/100" in stream.getvalue()
    progress.clear()
    assert stream.getvalue().endswith("\r\x1b[K")
    length = len(stream.getvalue())
    progress.clear()
    assert len(stream.getvalue()) == length


def test_without_a_stream_it_is_silent() -> None:
    progress = Progress(None, 80, lambda: 0)
    progress("x", 1, 2)
    progress.clear()
