"""How often a provider's first write faults, for each way to meet a region's pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.kernel

CELLS, CTX = 1024, 2048
TENSORS, ROW = 8, 256  # the preset tiny
PAGES = TENSORS * CELLS * ROW // 4096
HUGE_PAGES = TENSORS * CTX * ROW // (2 << 20)  # every one of the region's has rows
ABOUT_TEN = 12  # what else the provider touches for the first time


@pytest.mark.usefixtures("huge_pages")
def test_the_first_write_into_each_kind(zcopy: Callable[..., Any]) -> None:
    kinds = "memfd,memfd-thp,memfd-huge,udmabuf,dma-heap:system"
    done = zcopy(
        "handoff", "--json", "--model", "tiny", "--cells", str(CELLS), "--ctx", str(CTX), "--reps", "1",
        "--route", "shared", "--region", "reused", "--buffer", kinds, "--populate", "none,map,prefault",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    faults = {(row["case"]["buffer"], row["case"]["populate"]): row["faults"] for row in done.rows}

    def about(kind: str, expected: int, populate: str = "none") -> None:
        found = faults.pop((kind, populate))
        assert expected <= found <= expected + ABOUT_TEN, f"{kind}, {populate}: {found} faults"

    about("memfd", PAGES)
    about("memfd", PAGES, "map")  # the exporter's page tables are not the provider's
    about("memfd", PAGES // 16, "prefault")  # fault-around maps 64 KiB at a time, for reading faults only
    about("memfd-thp", HUGE_PAGES)
    for populate in ("none", "map", "prefault"):
        about("memfd-huge", HUGE_PAGES, populate)
    about("dma-heap:system", 0)  # all there when it is mapped
    found = faults.pop(("udmabuf", "none"))
    assert found <= ABOUT_TEN or PAGES <= found <= PAGES + ABOUT_TEN  # by kernel: all at once, or one by one
    assert not faults
