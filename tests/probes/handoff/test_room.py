"""What does not fit is a skipped row with the figures, before the kernel is asked."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zcopy.buffers.memfd import Memfd, MemfdThp
from zcopy.host import Host
from zcopy.model import Outcome
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length, Variant
from zcopy.probes.handoff.probe import HandoffProbe
from zcopy.probes.handoff.room import Needs, Room, Sizes, free_bytes, needs
from zcopy.units import GIB, MIB

HOST_TESTS = Path(__file__).parents[2] / "host/conftest.py"
REUSED = Variant("shared", "memfd", "reused", "prefault", "scm")
FRESH = Variant("shared", "memfd", "fresh", "none", "scm")
FILE = Variant("file", "memfd", "reused", state_dir="/")
QWEN = Cache(PRESETS["qwen3-4b"], TYPES["f16"], TYPES["f16"])


@pytest.fixture
def with_memory(tmp_path: Path) -> Callable[..., Host]:
    """A machine with so many bytes available, and other files as given."""
    build = runpy.run_path(str(HOST_TESTS))["build"]

    def new(available: int, more: str = "") -> Host:
        text = f"== proc/meminfo\nMemTotal: {available >> 10} kB\nMemAvailable: {available >> 10} kB\n==\n{more}\n"
        return Host.read(build(text, tmp_path / "box"))

    return new


def test_the_figures_of_a_length() -> None:
    sizes = Sizes.of(HandoffParams(QWEN, ()), Length(307, 4608))
    assert sizes == Sizes(region=648 * MIB, payload=307 * 147_456, state=45_274_820)


SIZES = Sizes(region=100, payload=10, state=12)


@pytest.mark.parametrize(
    ("variant", "first", "on_memory", "expected"),
    [
        (REUSED, True, False, Needs(cache=100)),
        (REUSED, False, False, Needs(memory=100)),
        (FRESH, True, False, Needs(memory=100)),
        (FILE, True, False, Needs(cache=100, source=10, disk=12)),
        (FILE, True, True, Needs(memory=12, cache=100, source=10)),
        (Variant("copy", "memfd", "reused"), True, False, Needs(cache=100, source=10)),
    ],
)
def test_what_a_variant_takes(variant: Variant, first: bool, on_memory: bool, expected: Needs) -> None:
    assert needs(variant, SIZES, first, on_memory) == expected


def test_variants_share_the_cache_and_the_source(with_memory: Callable[..., Host]) -> None:
    host = with_memory(GIB)
    room = Room(host)
    shared = Needs(cache=600 * MIB, source=100 * MIB)
    for _ in range(4):
        assert room.lack(replace(FILE, state_dir=None), shared, Memfd(), host, 600 * MIB) is None
    assert room.memory == 700 * MIB


def test_what_is_taken_is_gone_for_the_next(with_memory: Callable[..., Host]) -> None:
    host = with_memory(GIB)  # less the sixteenth that is kept back: 960 MiB
    room = Room(host)
    assert room.lack(FRESH, Needs(memory=600 * MIB), Memfd(), host, 600 * MIB) is None
    lack = room.lack(FRESH, Needs(memory=600 * MIB), Memfd(), host, 600 * MIB)
    assert lack == "needs 600 MiB more memory, 360 MiB are left (MemAvailable)"
    assert room.memory == 600 * MIB  # what does not fit is not counted
    assert room.lack(FRESH, Needs(memory=360 * MIB), Memfd(), host, 360 * MIB) is None


class SmallKind(Memfd):
    def limit(self, host: Host) -> tuple[int, str]:
        return 64 * MIB, "the kind's own limit"


def test_a_kinds_own_limit_counts_for_one_region(with_memory: Callable[..., Host]) -> None:
    host = with_memory(GIB)
    room = Room(host)
    assert room.lack(REUSED, Needs(cache=64 * MIB), SmallKind(), host, 64 * MIB) is None
    lack = room.lack(REUSED, Needs(cache=64 * MIB + 1), SmallKind(), host, 64 * MIB + 1)
    assert lack is not None
    assert lack.endswith("of memfd: the kind's own limit (64 MiB)")


def test_the_disk_has_to_have_room(with_memory: Callable[..., Host]) -> None:
    host = with_memory(GIB)
    room = Room(host)
    assert room.lack(FILE, Needs(disk=free_bytes(Path("/")) // 2), Memfd(), host, 0) is None
    lack = room.lack(FILE, Needs(disk=1 << 60), Memfd(), host, 0)
    assert lack is not None
    assert lack.startswith("needs 1073741824 GiB in /, ")


def test_free_bytes_of_a_folder_that_will_be_made(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "not/yet/there") > 0


def absent(host: Host, context: Callable[..., Any], **changes: Any) -> dict[tuple[Any, Any], str | None]:
    params = HandoffParams(QWEN, (Length(16399, 20480),), state_dirs=("/",), **changes)
    rows = list(HandoffProbe(params).measure(context(host=host)))
    assert {row.outcome for row in rows} == {Outcome.SKIPPED}
    assert all(row.verified is None and not row.ns for row in rows)
    return {(row.case["route"], row.case["region"]): row.reason for row in rows}


@pytest.mark.usefixtures("nothing_left")
def test_a_small_box_skips_with_the_figures(
    with_memory: Callable[..., Host], context: Callable[..., Any]
) -> None:
    reasons = absent(with_memory(2 * GIB), context)
    assert reasons == {
        ("shared", "reused"): "needs 2.81 GiB more memory, 1.88 GiB are left (MemAvailable)",
        ("shared", "fresh"): "needs 2.81 GiB more memory, 1.88 GiB are left (MemAvailable)",
        ("file", "reused"): "needs 5.06 GiB more memory, 1.88 GiB are left (MemAvailable)",
        ("file", "fresh"): "needs 5.06 GiB more memory, 1.88 GiB are left (MemAvailable)",
    }


CGROUP = """
== proc/self/cgroup
0::/box
==
== proc/self/mountinfo
31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
==
sys/fs/cgroup/box/memory.max = 1073741824
sys/fs/cgroup/box/memory.current = 4096
"""


def test_a_cgroups_limit_is_named(with_memory: Callable[..., Host], context: Callable[..., Any]) -> None:
    reason = absent(with_memory(64 * GIB, CGROUP), context, routes=("shared",))["shared", "fresh"]
    assert reason is not None
    assert reason.startswith("needs 2.81 GiB more memory, 960 MiB are left (")
    assert "memory.max" in reason


def test_planning_asks_nothing_of_the_kernel(
    with_memory: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would run, what it takes: the cache and one fresh region, the source, the state file on disk."""
    monkeypatch.setattr(Memfd, "unavailable", lambda *_: None)
    monkeypatch.setattr(Memfd, "allocate", lambda *_: pytest.fail("a region was allocated"))
    params = HandoffParams(QWEN, (Length(307, 4608), Length(16399, 20480)), state_dirs=("/",))
    plan = HandoffProbe(params).plan(with_memory(64 * GIB))
    assert len(plan.cases) == 8
    assert plan.memory == 2 * 2880 * MIB + 16399 * 147_456
    assert plan.disk == 2_418_394_244
    assert plan.duration_ns > 0


def test_sizes_are_rounded_to_the_kinds_granule() -> None:
    assert MemfdThp().room(648 * MIB + 1) == 650 * MIB
