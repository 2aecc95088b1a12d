"""Writing caches back by line, through Python."""

from __future__ import annotations

import os

import pytest

from zcopy.native.fill import Span
from zcopy.native.flush import cache_line, flush, flushers
from zcopy.native.region import Region

SIZE = 1 << 16


def test_what_this_cpu_has() -> None:
    if os.uname().machine == "x86_64":
        assert flushers()[-1] == "clflush"
        assert cache_line() == 64
    if os.uname().machine == "aarch64":
        assert flushers() == ["cvac"]


@pytest.mark.parametrize("how", ["", *flushers()])
def test_no_byte_changes(how: str) -> None:
    with Region(-1, SIZE) as one:
        one.view()[:] = bytes(range(256)) * (SIZE // 256)
        for span in (Span(0, SIZE), Span(1, 1), Span(SIZE - 1, 1), Span(100, 0)):
            assert flush(one, span, how) >= 0
        assert bytes(one.view()) == bytes(range(256)) * (SIZE // 256)


@pytest.mark.parametrize("span", [Span(-1, 2), Span(0, SIZE + 1), Span(SIZE, 1), Span(0, -1)])
def test_nothing_outside_is_swept(span: Span) -> None:
    with Region(-1, SIZE) as one, pytest.raises(ValueError, match="bytes from"):
        flush(one, span)


def test_an_instruction_that_is_not_there_is_named() -> None:
    with Region(-1, SIZE) as one, pytest.raises(ValueError, match="by line with wbinvd"):
        flush(one, Span(0, 1), "wbinvd")
