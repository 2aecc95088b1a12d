"""Ranges: only what was touched is filled and synced, and a driver that flushes everything all the same is seen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from zcopy.errors import MeasurementError
from zcopy.host import Host
from zcopy.model import Outcome, Row
from zcopy.native.calls import NativeError
from zcopy.native.fill import Span
from zcopy.native.maintenance import Maintenance
from zcopy.native.region import Region
from zcopy.probes.base import Context
from zcopy.probes.fill.derived import is_whole, whole_buffer_flushes
from zcopy.probes.fill.params import Case, FillParams
from zcopy.probes.fill.probe import FillProbe
from zcopy.probes.fill.sync import POLICIES, Spent, take
from zcopy.units import KIB, MIB


def run(**params: Any) -> list[Row]:
    context = Context(Host.read(), time.monotonic_ns, lambda *_: None, lambda _: None, dict(os.environ))
    return list(FillProbe(FillParams(("memfd",), methods=("memcpy",), reps=2, **params)).measure(context))


def test_a_part_is_filled_beside_the_whole_and_against_its_like() -> None:
    rows = run(sizes=(MIB,), ranges=(64, 4 * KIB, MIB))
    assert [(row.case["buffer"], row.case.get("range"), row.bytes) for row in rows] == [
        ("anon", 64, 64), ("anon", 4 * KIB, 4 * KIB), ("anon", None, MIB),
        ("memfd", 64, 64), ("memfd", 4 * KIB, 4 * KIB), ("memfd", None, MIB),
    ]  # fmt: skip
    assert all(row.verified for row in rows)
    assert all(row.case["size"] == MIB and row.bytes_copied == row.bytes for row in rows)
    assert [row.extra["vs_memcpy"] for row in rows[:3]] == [1.0] * 3


def test_a_part_lies_at_an_offset() -> None:
    assert Case("memfd", "nt", MIB, "clean", 1, 4096).span == Span(MIB // 2 // 4096 * 4096 - 4096, 4096)
    assert Case("memfd", "nt", MIB, "clean", 1).span == Span(0, MIB)
    assert Case("memfd", "nt", KIB, "clean", 1, 64).span == Span(0, 64)


class Recorder(Maintenance):
    """A simulated driver: it takes down what it is told, and 5 ns each time."""

    ranged = True

    def __init__(self) -> None:
        self.calls: list[str] = []

    def sync(self, *, end: bool, read: bool, write: bool, offset: int, size: int) -> int:
        direction = ("R" if read else "") + ("W" if write else "")
        self.calls.append(f"{'end' if end else 'start'} {direction} {offset}+{size}")
        return 5


@pytest.fixture
def recorded() -> Callable[[str, Span], list[str]]:
    def calls(policy: str, span: Span) -> list[str]:
        recorder = Recorder()
        with Region(-1, MIB, maintenance=recorder) as region:
            for steps in POLICIES[policy][:2]:
                assert take(region, steps, span).sync == 5 * len(steps)
        return recorder.calls

    return calls


def test_each_policy_makes_its_calls_for_its_range(recorded: Callable[[str, Span], list[str]]) -> None:
    where = Span(8192, 640)
    assert recorded("none", where) == []
    assert recorded("clean", where) == ["start W 8192+640", "end W 8192+640"]
    assert recorded("full", where) == [
        "start RW 8192+640", "end RW 8192+640", "start W 8192+640", "end W 8192+640",
    ]  # fmt: skip


class Fenced(Region):
    """A simulated dma-buf with a device at work on it."""

    def __init__(self, wait: Callable[[bool], int]) -> None:
        super().__init__(-1, MIB, maintenance=Recorder())
        self._waits = wait

    def wait(self, *, write: bool, timeout_ms: int) -> int:
        return self._waits(write)


def test_waiting_for_a_fence_is_no_part_of_the_sync() -> None:
    asked: list[bool] = []

    def wait(write: bool) -> int:
        asked.append(write)
        return 1000

    with Fenced(wait) as region:
        spent = [take(region, steps, Span(0, MIB)) for steps in POLICIES["full"][:2]]
    assert spent == [Spent(1000, 5), Spent(1000, 15)]
    assert asked == [True, True]  # before each call that opens, and for what it opens


def test_a_fence_that_never_signals_is_one_line() -> None:
    def never(_write: bool) -> int:
        raise NativeError(110, "Connection timed out")

    with Fenced(never) as region, pytest.raises(MeasurementError, match="fence never signalled"):
        take(region, POLICIES["clean"].before, Span(0, MIB))


@pytest.mark.parametrize(
    ("part_ns", "part", "whole_ns", "size", "whole"),
    [
        (1_058_000, 4 * KIB, 1_060_000, 64 * MIB, True),  # an import of amdxdna, before it was corrected
        (600, 4 * KIB, 1_060_000, 64 * MIB, False),  # and after
        (17_100, MIB, 1_060_000, 64 * MIB, False),
        (900_000, MIB, 1_060_000, 64 * MIB, True),
        (400, 4 * KIB, 410, 64 * MIB, False),  # a call that does nothing costs the same for any range
        (2_500, 64, 2_600, MIB, False),
        (9_000, 4 * KIB, 9_500, MIB, True),  # 16384 lines at half a nanosecond
        (600_000, 32 * MIB, 1_000_000, 64 * MIB, False),  # half of it is no narrow range
    ],
)
def test_whole_buffer_flushes_in_reports(
    part_ns: int, part: int, whole_ns: int, size: int, whole: bool
) -> None:
    assert is_whole(part_ns, part, whole_ns, size) is whole


def synced(part: int | None, sync_ns: int, outcome: Outcome = Outcome.OK, method: str = "memcpy") -> Row:
    case: dict[str, Any] = {
        "buffer": "npu",
        "method": method,
        "size": 64 * MIB,
        "sync": "clean",
        "threads": 1,
    }
    if part:
        case["range"] = part
    return Row(
        case=case, outcome=outcome, bytes=part or 64 * MIB, ns={"sync": (sync_ns,), "total": (sync_ns,)}
    )


def test_a_flush_is_told_once_with_both_figures() -> None:
    rows = [synced(None, 1_060_000), synced(MIB, 1_059_000), synced(64, 1_058_000)]
    rows += [synced(part, ns, method="nt") for part, ns in ((None, 1_060_000), (64, 1_058_000))]
    (warning,) = whole_buffer_flushes(rows)
    assert warning.code == "whole-buffer-flush"
    assert "npu: sync clean of 64 B takes 1.06 ms, of all 64 MiB 1.06 ms" in warning.text


def test_rows_without_a_whole_one_or_a_sync_tell_nothing() -> None:
    assert list(whole_buffer_flushes([synced(64, 1_058_000)])) == []
    assert list(whole_buffer_flushes([synced(None, 10**6, Outcome.FAILED), synced(64, 1_058_000)])) == []
