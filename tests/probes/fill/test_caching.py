"""The classifier on recorded and reported rates: what it may conclude, and what it must leave open."""

from __future__ import annotations

import os
import time

import pytest

from zcopy.buffers.memfd import sealed
from zcopy.host import Host
from zcopy.model import Warning_
from zcopy.native.region import Region
from zcopy.probes.base import Context
from zcopy.probes.fill.caching import Rates, classify, contradiction, observed, rates
from zcopy.probes.fill.params import FillParams
from zcopy.probes.fill.probe import FillProbe
from zcopy.units import MIB

ORDINARY = Rates(64 * MIB, 3_300_000, 2_850_000)  # 20 GB/s read, 23.6 GB/s streamed


def at(read_gbps: float, write_gbps: float) -> Rates:
    return Rates(64 * MIB, int(64 * MIB / read_gbps), int(64 * MIB / write_gbps))


@pytest.mark.parametrize(
    ("read", "write", "found"),
    [
        (20.3, 23.5, "cached"),
        (12.0, 9.0, "cached"),
        (0.22, 22.0, "write-combine"),  # read back 90 times slower, as reported of an integrated GPU
        (3.9, 21.0, "write-combine"),
        (0.2, 1.1, "uncached"),  # RK3588, flag 0x401: 1.1 where cached memory takes 12
        (1.1, 1.9, "uncached"),
        (6.0, 22.0, "unclear"),
        (0.3, 7.0, "unclear"),
    ],
)
def test_recorded_rates(read: float, write: float, found: str) -> None:
    assert classify(at(read, write), ORDINARY) == found


def test_a_clock_that_saw_nothing_divides_nothing() -> None:
    assert classify(Rates(64, 0, 0), ORDINARY) == "cached"


@pytest.mark.parametrize(
    ("found", "device", "virtual", "said"),
    [
        ("cached", True, "kvm", "not observable"),
        ("cached", True, None, "cached"),
        ("cached", False, "kvm", "cached"),  # nobody overrules how a process maps its own memory
        ("write-combine", True, "kvm", "write-combine"),  # reading slowly shows even there
        ("unclear", True, "kvm", "unclear"),
    ],
)
def test_what_a_virtual_machine_hides(found: str, device: bool, virtual: str | None, said: str) -> None:
    assert observed(found, device=device, virtual=virtual) == said


def test_a_contradiction_names_both() -> None:
    text = contradiction("rknpu", "uncached", "write-combine") or ""
    assert "rknpu" in text and "uncached" in text and "write-combine" in text
    for found, declared in (
        ("cached", "cached"), ("cached", None), ("not observable", "write-combine"), ("unclear", "cached"),
    ):  # fmt: skip
        assert contradiction("x", found, declared) is None


def test_rates_of_real_memory_are_those_of_cached_memory() -> None:
    """Two kinds of cached memory, measured one after the other, are told apart from nothing."""
    with Region(-1, 4 * MIB) as one, sealed("rates", 4 * MIB) as other, Region(-1, 4 * MIB) as source:
        source.view()[:5] = b"bytes"
        for region in (one, other):
            region.populate()
        ordinary = rates(one, source, 4 * MIB)
        found = rates(other, source, 4 * MIB)
        assert bytes(other.view()[:5]) == b"bytes"
    assert min(ordinary.read_ns, ordinary.write_ns, found.read_ns, found.write_ns) > 0
    assert classify(found, ordinary) in ("cached", "unclear")


def test_a_buffer_that_belies_its_driver_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ordinary memory that a simulated driver declares write-combine."""
    monkeypatch.setattr("zcopy.buffers.memfd.Memfd.declared", lambda *_: "write-combine")
    monkeypatch.setattr("zcopy.probes.fill.caching.classify", lambda *_: "cached")
    told: list[Warning_] = []
    context = Context(Host.read(), time.monotonic_ns, lambda *_: None, told.append, dict(os.environ))
    params = FillParams(("memfd",), (64 * 1024,), methods=("memcpy", "nt"), reps=1)
    rows = [row for row in FillProbe(params).measure(context) if row.case["buffer"] == "memfd"]
    assert [row.extra["caching"] for row in rows] == ["cached"] * 2
    assert [row.extra["declared_caching"] for row in rows] == ["write-combine"] * 2
    assert [(each.code, each.text.partition(" ")[0]) for each in told] == [("caching", "memfd")]
