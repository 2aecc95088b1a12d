"""Memory that cannot be had or handed over: the other routes still serve, and the row says why this one did not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from zcopy.buffers.dmaheap import DmaHeap
from zcopy.buffers.memfd import Memfd
from zcopy.host import Host
from zcopy.model import Outcome, Row
from zcopy.native.calls import NativeError, refused
from zcopy.native.region import Region
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import ROUTES

pytestmark = pytest.mark.usefixtures("nothing_left")


class Ran(Protocol):
    rows: list[Row]
    warnings: list[Any]

    def row(self, **case: Any) -> Row: ...


class Handoff(Protocol):
    def __call__(self, **params: Any) -> Ran: ...


def outcomes(ran: Ran) -> list[tuple[Any, Any, str]]:
    return [(row.case["route"], row.case["buffer"], str(row.outcome)) for row in ran.rows]


def test_memory_without_a_descriptor_is_refused_and_the_file_serves(handoff: Handoff) -> None:
    ran = handoff(buffers=("anon",), regions=("reused",), routes=ROUTES)
    assert outcomes(ran) == [
        ("shared", "anon", "refused"),
        ("file", "anon", "ok"),
        ("copy", "anon", "ok"),
        ("pipe", "anon", "ok"),
    ]
    refused_row = ran.row(route="shared")
    assert refused_row.reason == "anon has no descriptor to export: the request takes the file route"
    assert (refused_row.verified, refused_row.ns, refused_row.gbps) == (None, {}, None)
    assert ran.row(route="file").extra["proof"] == {"link": None}


def test_memory_that_is_not_here_is_skipped_and_the_file_serves(handoff: Handoff) -> None:
    ran = handoff(buffers=("dma-heap:no-such",), routes=("shared", "file"))
    assert sorted(outcomes(ran)) == [
        ("file", "anon", "ok"),
        ("file", "anon", "ok"),
        ("shared", "dma-heap:no-such", "skipped"),
        ("shared", "dma-heap:no-such", "skipped"),
    ]
    reason = ran.row(route="shared", region="reused").reason
    assert reason == DmaHeap("no-such").unavailable(Host.read())
    assert "/dev/dma_heap" in str(reason)


def test_a_kind_that_serves_makes_the_fallback_needless(handoff: Handoff) -> None:
    ran = handoff(buffers=("drm:card99", "memfd"), regions=("reused",), routes=("shared", "file"))
    assert sorted(outcomes(ran)) == [
        ("file", "memfd", "ok"),
        ("shared", "drm:card99", "skipped"),
        ("shared", "memfd", "ok"),
    ]


def test_the_same_fallback_is_measured_once(handoff: Handoff) -> None:
    ran = handoff(buffers=("drm:card98", "drm:card99"), regions=("reused",), routes=("shared", "file"))
    assert sorted(outcomes(ran)) == [
        ("file", "anon", "ok"),
        ("shared", "drm:card98", "skipped"),
        ("shared", "drm:card99", "skipped"),
    ]


class Shy(Memfd):
    """Offers a small buffer, and refuses one of a cache's size."""

    def allocate(self, size: int, label: str) -> Region:
        if label != "zcopy-try":
            raise refused(f"{self.name}: {size} bytes", NativeError(12, "Cannot allocate memory"))
        return super().allocate(size, label)


@pytest.fixture
def shy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zcopy.buffers.registry._FIXED", (Shy,))


@pytest.mark.usefixtures("shy")
def test_memory_that_is_refused_when_it_counts(handoff: Handoff) -> None:
    ran = handoff(routes=("shared",))
    assert {row.outcome for row in ran.rows} == {Outcome.REFUSED}
    assert {row.reason for row in ran.rows} == {"memfd: 524288 bytes: Cannot allocate memory (ENOMEM)"}


class Nothing(Memfd):
    def missing(self, host: Host) -> str:
        return "no memory today"


def test_a_box_that_exports_nothing_is_warned_of_once(
    handoff: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zcopy.buffers.registry._FIXED", (Nothing,))
    monkeypatch.setattr("zcopy.buffers.registry._FAMILIES", ())
    from zcopy.probes.handoff.params import Length

    ran = handoff(lengths=(Length(3, 64), Length(5, 64)), regions=("reused",))
    assert [warning.code for warning in ran.warnings] == ["no-export"]
    assert outcomes(ran) == [("file", "anon", "ok"), ("shared", "memfd", "skipped")] * 2


def test_a_box_that_exports_is_not_warned_of(handoff: Handoff) -> None:
    assert "no-export" not in [warning.code for warning in handoff(routes=("shared",)).warnings]


def test_rows_of_a_rotated_cache_are_not_written_in_place(handoff: Handoff) -> None:
    """The file route saves and restores what a server would: it does not care."""
    cache = Cache(PRESETS["tiny"], TYPES["q8_0"], TYPES["q8_0"])
    ran = handoff(cache=cache, routes=ROUTES, regions=("reused",))
    assert {row.case["route"]: row.outcome for row in ran.rows} == {
        "shared": Outcome.REFUSED, "file": Outcome.OK, "copy": Outcome.REFUSED, "pipe": Outcome.REFUSED,
    }  # fmt: skip
    assert "Hadamard-rotated" in str(ran.row(route="shared").reason)


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_state_folder_that_cannot_be_used_fails_the_file_rows_only(
    name: str, handoff: Handoff, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    ran = handoff(state_dirs=(str(tmp_path / name),), routes=("shared", "file", "pipe"))
    assert {row.case["route"]: row.outcome for row in ran.rows} == {
        "shared": Outcome.OK, "file": Outcome.FAILED, "pipe": Outcome.OK,
    }  # fmt: skip
    assert all("--state-dir" in str(row.reason) for row in ran.rows if row.case["route"] == "file")


def children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = stat.read_text().rpartition(")")[2].split()
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def kill_providers(at_round: int) -> Callable[[str, int, int], None]:
    """Progress that kills every provider once, at the first step of a round."""
    armed = [True]

    def progress(what: str, _done: int, _total: int) -> None:
        if armed and f"round {at_round}" in what:
            armed.clear()
            for pid in children():
                os.kill(pid, signal.SIGKILL)

    return progress


def test_killed_providers_fail_their_rows_and_the_run_goes_on(handoff: Handoff) -> None:
    ran = handoff(routes=ROUTES, reps=3, progress=kill_providers(2))
    assert len(ran.rows) == 6
    failed = [row for row in ran.rows if row.outcome is Outcome.FAILED]
    assert {"shared"} <= {str(row.case["route"]) for row in failed}
    assert all("the provider is gone" in str(row.reason) for row in failed), [row.reason for row in failed]
    for row in failed:
        assert row.verified is False


def test_memory_that_no_store_of_ours_may_touch_is_refused(
    handoff: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Device memory on arm64: a bus error would end the decoder. Simulated by memfd that says so of itself."""
    monkeypatch.setattr("zcopy.buffers.memfd.Memfd.capabilities", replace(Memfd.capabilities, strict=True))
    monkeypatch.setattr(
        "zcopy.buffers.strict.os", SimpleNamespace(uname=lambda: SimpleNamespace(machine="aarch64"))
    )
    row = handoff(routes=("shared",), regions=("reused",)).row(route="shared")
    assert row.outcome is Outcome.REFUSED
    assert "Device memory" in str(row.reason)
