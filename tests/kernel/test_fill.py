"""`zcopy fill` on real dma-bufs: every sync policy, with the calls that it promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.kernel

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
        assert ("sync" in row["ns"]) == (row["case"]["sync"] != "none")
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
