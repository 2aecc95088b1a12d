"""DMA_BUF_IOCTL_SYNC as the kernel sees it: every START has its END, and no byte of a dma-buf moves outside a pair."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.kernel

SYNC = 0x40086200  # DMA_BUF_IOCTL_SYNC
READ, WRITE, END = 1, 2, 4
SMALL = ("handoff", "--json", "--no-save", "--model", "tiny", "--cells", "20", "--ctx", "64", "--reps", "1")

Call = Callable[..., Any]
Calls = list[Any]


@pytest.fixture
def traced(zcopy: Call, system_calls: Call) -> Callable[..., Calls]:
    """Runs a handoff that must succeed, and returns its system calls in order."""

    def run(*words: str) -> Calls:
        with system_calls(SYNC).during() as calls:
            done = zcopy(*SMALL, *words)
        assert done.code == 0, done.stderr
        return [each for each in calls if each.call != "ioctl" or each.command == SYNC]

    return run


def brackets(calls: Calls) -> Iterator[tuple[Any, set[int]]]:
    """Each call with the directions that its process has open then; asserts that every START is closed alike."""
    open_: dict[tuple[int, int], int] = {}
    for each in calls:
        where, direction = (each.pid, each.fd), each.word & (READ | WRITE)
        yield each, {way for (pid, _), way in open_.items() if pid == each.pid}
        if each.call != "ioctl":
            continue
        if each.word & END:
            assert open_.pop(where, None) == direction, f"{each} closes what is not open"
        else:
            assert direction, f"{each} opens nothing"
            assert where not in open_, f"{each} opens what is open"
            open_[where] = direction
    assert not open_, f"never closed: {open_}"


def starts(calls: Calls) -> tuple[Counter[int], Counter[int]]:
    """How often the decoder (this process) and the providers open each direction; everything paired."""
    ours: Counter[int] = Counter()
    theirs: Counter[int] = Counter()
    for each, _ in brackets(calls):
        if each.call == "ioctl" and not each.word & END:
            (ours if each.pid == os.getpid() else theirs)[each.word] += 1
    return ours, theirs


@pytest.mark.parametrize(
    ("buffer", "passing"),
    [("udmabuf", "scm"), ("dma-heap:system", "scm"), ("drm:card0", "scm"), ("udmabuf", "inherit")],
)
def test_every_write_of_a_provider_is_bracketed(traced: Call, buffer: str, passing: str) -> None:
    decoder, provider = starts(traced("--buffer", buffer, "--route", "shared", "--pass", passing))
    # Reused: the first request, one untimed, one timed. Fresh: a first and a warm one, untimed and timed.
    assert provider[WRITE] == 3 + 4
    # A provider tries what it is handed with a pair for reading: the reused region, and two fresh ones.
    assert provider == Counter({WRITE: 7, READ: 3})
    # The decoder reads what it verifies, and times a pair in each request that counts.
    assert decoder[READ] == 2 + 2 + 3
    assert decoder[READ | WRITE] == 1  # the guard of the reused region


def test_what_comes_through_system_calls_is_bracketed(traced: Call) -> None:
    calls = traced("--buffer", "dma-heap:system", "--route", "file,pipe", "--region", "reused")
    reading = [open_ for each, open_ in brackets(calls) if each.call == "readv" and each.pid == os.getpid()]
    assert len(reading) >= 6  # two routes, three requests each
    assert all(open_ == {READ | WRITE} for open_ in reading)


def test_what_the_decoder_copies_is_bracketed(traced: Call) -> None:
    decoder, provider = starts(traced("--buffer", "udmabuf", "--route", "copy"))
    assert decoder[READ | WRITE] == 1 + 3  # the guard, and each of three requests
    assert not provider  # it writes into a memfd


def test_nothing_is_asked_of_a_memfd(traced: Call) -> None:
    calls = traced("--buffer", "memfd", "--route", "all")
    assert [each for each in calls if each.call == "ioctl"] == []
    assert calls  # the trace was on
