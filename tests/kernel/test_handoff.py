"""`zcopy handoff` over real dma-bufs, end to end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from zcopy.probes.handoff.params import INJECTS

pytestmark = pytest.mark.kernel

SMALL = ("handoff", "--json", "--model", "tiny", "--cells", "20", "--ctx", "64", "--reps", "1")
PAYLOAD = 20 * 2048
STATE = 41_428  # 28 + 4·20 + 8 + 12·20 + 16 + 2·4·(12 + 20·256), by the format's size formula
PHASES = {"export", "pass", "map", "first_write", "write", "adopt", "ready", "sync", "total"}
DMABUFS = ("udmabuf", "dma-heap:system")
DIFFERENCE = re.compile(
    r"wrong row: layer \d+ [KV] cell \d+ byte \d+"
    r"|overwritten: (layer \d+ [KV] cell \d+ byte \d+|region byte \d+), which must not be written"
)

Call = Callable[..., Any]
Rows = list[dict[str, Any]]


def by_route(rows: Rows, route: str) -> Rows:
    return [row for row in rows if row["case"]["route"] == route]


@pytest.mark.parametrize("scatter", [(), ("--scatter",)], ids=["contiguous", "scattered"])
@pytest.mark.parametrize("buffer", DMABUFS)
def test_every_route_region_and_pass(zcopy: Call, buffer: str, scatter: tuple[str, ...]) -> None:
    done = zcopy(*SMALL, "--buffer", buffer, "--route", "all", "--pass", "scm,inherit", *scatter)
    assert done.code == 0, done.stderr
    rows = done.rows
    assert Counter(row["case"]["route"] for row in rows) == {"shared": 4, "file": 2, "copy": 1, "pipe": 1}
    for row in rows:
        assert (row["outcome"], row["verified"], row["bytes"]) == ("ok", True, PAYLOAD), row
        assert row["case"]["buffer"] == buffer
    copied = {row["case"]["route"]: (row["bytes_copied"], row["n_read"]) for row in rows}
    assert copied == {
        "shared": (0, 0),
        "file": (2 * STATE, STATE),
        "copy": (PAYLOAD, 0),
        "pipe": (2 * PAYLOAD, PAYLOAD),
    }
    for row in by_route(rows, "shared"):
        assert row["proof"]["exp_name"] == buffer.removeprefix("dma-heap:")
        assert row["proof"]["size"] == row["region_bytes"] == 64 * 2048
        # Reading the counters is taken off, to a byte or two: they may have gained a digit meanwhile.
        assert row["proc_io_bytes"] < 8
        assert row["gbps"] is None
        assert isinstance(row["vs_file"], float)
        assert set(row["ns"]) >= PHASES


def test_every_card(zcopy: Call, cards: dict[str, str]) -> None:
    assert len(cards) == 5, cards
    names = [f"drm:{card}" for card in cards]
    done = zcopy(*SMALL, "--buffer", ",".join(names), "--route", "shared,file")
    assert done.code == 0, done.stderr
    proofs = {row["case"]["buffer"]: row["proof"] for row in by_route(done.rows, "shared")}
    assert list(proofs) == names
    for card, driver in cards.items():
        assert proofs[f"drm:{card}"]["driver"] == driver
        assert proofs[f"drm:{card}"]["exp_name"] == ("virtio_gpu" if driver == "virtio_gpu" else "drm")
    assert all(row["verified"] for row in done.rows)


def test_a_card_of_a_device_is_locked_and_a_virtual_one_has_nothing_to_lock(
    zcopy: Call, cards: dict[str, str]
) -> None:
    by_driver = {driver: f"drm:{card}" for card, driver in cards.items()}
    for driver, extra in (("virtio_gpu", 1), ("vgem", 0)):
        done = zcopy(*SMALL, "--buffer", by_driver[driver], "--route", "shared", "--region", "reused")
        assert done.code == 0, done.stderr
        locks = [lock["device"] for lock in done.document["locks"]]
        assert locks[0] == "cpu"
        assert [name[:3] for name in locks[1:]] == ["gpu"] * extra


@pytest.mark.parametrize("inject", INJECTS)
def test_a_wrong_provider_fails_the_row(zcopy: Call, inject: str) -> None:
    buffers = ",".join((*DMABUFS, "drm:card0"))
    done = zcopy(*SMALL, "--buffer", buffers, "--route", "shared", "--inject", inject)
    assert done.code == 1
    assert done.document["status"] == "failed"
    assert len(done.rows) == 6
    for row in done.rows:
        assert (row["outcome"], row["verified"], row["gbps"]) == ("failed", False, None), row
        assert DIFFERENCE.search(row["reason"]), row["reason"]


def test_addresssanitizer_counts_what_a_sound_looking_writer_overwrites(zcopy: Call) -> None:
    asan = (
        *SMALL,
        "--buffer",
        ",".join(DMABUFS),
        "--route",
        "shared",
        "--region",
        "reused",
        "--provider",
        "asan",
    )
    sound = zcopy(*asan)
    assert sound.code == 0, sound.stdout + sound.stderr
    assert [row["asan_reports"] for row in sound.rows] == [0] * 2
    wild = zcopy(*asan, "--inject", "run-long")
    assert wild.code == 1
    for row in wild.rows:
        assert row["outcome"] == "failed"
        assert row["asan_reports"] > 0
        assert "AddressSanitizer counted" in row["reason"]
