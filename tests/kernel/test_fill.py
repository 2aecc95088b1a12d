"""`zcopy fill` on real dma-bufs: every sync policy, with the calls that it promises."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.kernel

SYNC = 0x40086200  # DMA_BUF_IOCTL_SYNC
READ, WRITE, END = 1, 2, 4
SMALL = ("fill", "--json", "--size", "256KiB", "--reps", "2", "--method", "memcpy,nt,memset")
Call = Callable[..., Any]


@pytest.mark.parametrize("buffer", ["udmabuf", "dma-heap:system"])
def test_every_policy_on_every_kind(zcopy: Call, buffer: str) -> None:
    done = zcopy(*SMALL, "--buffer", buffer)
    assert done.code == 0, done.stderr
    rows = [row for row in done.rows if row["case"]["buffer"] == buffer]
    assert {(row["case"]["method"], row["case"]["sync"]) for row in rows} == {
        (method, sync) for method in ("memcpy", "nt", "memset") for sync in ("none", "clean", "full")
    }
    for row in rows:
        assert (row["outcome"], row["verified"]) == ("ok", True), row
        assert row["proof"]["exp_name"] == buffer.removeprefix("dma-heap:")
        assert ("sync" in row["ns"]) == ("fence" in row["ns"]) == (row["case"]["sync"] != "none")
        assert row["ns"]["total"] == [
            fill + sync for fill, sync in zip(row["ns"]["fill"], row["ns"].get("sync", [0, 0]), strict=True)
        ]


def test_dumb_buffers_of_every_card(zcopy: Call, cards: dict[str, str]) -> None:
    names = [f"drm:{card}" for card in cards]
    done = zcopy(*SMALL, "--buffer", ",".join(names))
    assert done.code == 0, done.stderr
    assert {row["case"]["buffer"] for row in done.rows} == {"anon", *names}
    assert all(row["verified"] for row in done.rows)
    drivers = {
        row["case"]["buffer"]: row["proof"]["driver"] for row in done.rows if row["case"]["buffer"] in names
    }
    assert drivers == {f"drm:{card}": driver for card, driver in cards.items()}


@pytest.mark.parametrize("buffer", ["udmabuf", "drm:card0"])
def test_each_fill_makes_the_calls_of_its_policy(zcopy: Call, system_calls: Call, buffer: str) -> None:
    """The kernel's own record of a run of two samples, each of an untimed fill and a timed one."""
    words = (
        "fill",
        "--json",
        "--no-save",
        "--size",
        "64KiB",
        "--reps",
        "2",
        "--method",
        "memcpy",
        "--buffer",
        buffer,
    )

    trace = system_calls(SYNC)

    def made(sync: str) -> list[int]:
        with trace.during() as calls:
            done = zcopy(*words, "--sync", sync)
        assert done.code == 0, done.stderr
        return [each.word for each in calls if each.command == SYNC]

    none, clean, full = (made(sync) for sync in ("none", "clean", "full"))
    for words_of in (none, clean, full):
        assert words_of[1::2] == [word | END for word in words_of[::2]]  # each START, then its END
    # What is made beside the fills is the same under every policy: touching, verifying, classifying.
    assert Counter(clean) - Counter(none) == Counter({WRITE: 4, WRITE | END: 4})
    assert Counter(full) - Counter(none) == Counter(
        {READ | WRITE: 4, READ | WRITE | END: 4, WRITE: 4, WRITE | END: 4}
    )


def test_narrowed_fills_of_real_dma_bufs(zcopy: Call) -> None:
    done = zcopy(*SMALL, "--buffer", "udmabuf", "--method", "memcpy", "--range", "64,4KiB")
    assert done.code == 0, done.stderr
    rows = [row for row in done.rows if row["case"]["buffer"] == "udmabuf"]
    assert {(row["bytes"], row["case"]["sync"]) for row in rows} == {
        (part, sync) for part in (64, 4096, 256 << 10) for sync in ("none", "clean", "full")
    }
    assert all(row["verified"] for row in rows)


def test_what_an_emulator_shows_of_a_mapping_is_not_called_cached(zcopy: Call, cards: dict[str, str]) -> None:
    """It has no caches: write-combined and cached memory are equally fast."""
    names = [f"drm:{card}" for card in cards]
    done = zcopy(
        "fill", "--json", "--size", "1MiB", "--reps", "1", "--method", "memcpy", "--buffer", ",".join(names)
    )
    declared = {
        row["proof"]["driver"]: row["declared_caching"] for row in done.rows if row["case"]["buffer"] in names
    }
    assert declared["vgem"] == "write-combine"
    assert declared["virtio_gpu"] == declared["qxl"] == "cached"
    found = {row["caching"] for row in done.rows if row["case"]["buffer"] in names}
    assert found <= {"not observable", "unclear"}
    assert not [each for each in done.document["warnings"] if each["code"] == "caching"]


class Fence:
    """A device at work on a buffer, simulated by vgem: a fence that a test attaches and signals (drm/vgem_drm.h)."""

    def __init__(self, card: str, dmabuf: int, *, write: bool) -> None:
        self._node = os.open(f"/dev/dri/{card}", os.O_RDWR | os.O_CLOEXEC)
        prime = struct.pack("IIi", 0, 0, dmabuf)
        handle = struct.unpack("IIi", fcntl.ioctl(self._node, 0xC00C642E, prime))[0]
        attach = fcntl.ioctl(self._node, 0xC0106441, struct.pack("IIII", handle, int(write), 0, 0))
        self._fence = struct.unpack("IIII", attach)[2]
        fcntl.ioctl(self._node, 0x40086409, struct.pack("II", handle, 0))  # the fence keeps the buffer

    def signal(self) -> None:
        fcntl.ioctl(self._node, 0x40086442, struct.pack("II", self._fence, 0))

    def close(self) -> None:
        os.close(self._node)


@pytest.fixture
def busy(cards: dict[str, str]) -> Iterator[Callable[..., Fence]]:
    """Puts vgem to work on a dma-buf."""
    vgem = next(card for card, driver in cards.items() if driver == "vgem")
    made: list[Fence] = []

    def begin(dmabuf: int, *, write: bool) -> Fence:
        made.append(Fence(vgem, dmabuf, write=write))
        return made[-1]

    yield begin
    for fence in made:
        fence.close()


@pytest.mark.parametrize("kind", ["dma-heap:system", "udmabuf"])
def test_a_devices_work_is_waited_for_apart_from_the_sync(
    kinds: dict[str, Any], busy: Callable[..., Fence], kind: str
) -> None:
    from zcopy.native.fill import Span
    from zcopy.probes.fill.sync import POLICIES, take

    with kinds[kind].allocate(1 << 20, "fence") as region:
        fence = busy(region.fd, write=True)
        timer = threading.Timer(0.5, fence.signal)
        timer.start()
        spent = take(region, POLICIES["clean"].before, Span(0, region.size))
        timer.join()
        assert spent.fence > 300_000_000  # it did wait for the half second
        assert spent.sync < spent.fence / 5
        again = take(region, POLICIES["clean"].before, Span(0, region.size))
        assert again.fence < spent.fence / 5


def test_reading_waits_for_no_reader(kinds: dict[str, Any], busy: Callable[..., Fence]) -> None:
    from zcopy.native.calls import NativeError

    with kinds["dma-heap:system"].allocate(1 << 20, "fence") as region:
        fence = busy(region.fd, write=False)
        assert region.wait(write=False, timeout_ms=0) >= 0
        with pytest.raises(NativeError) as caught:
            region.wait(write=True, timeout_ms=0)
        assert caught.value.name == "ETIMEDOUT"
        fence.signal()
        assert region.wait(write=True, timeout_ms=1000) >= 0
