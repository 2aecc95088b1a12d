"""The words of `--buffer`, where a kind's own name has a comma."""

from __future__ import annotations

from pathlib import Path

import pytest

from zcopy.cli.handoff_params import buffers_of, named_by_user
from zcopy.host import Host
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length

CMA = "dma-heap:linux,cma"


@pytest.fixture
def box(tmp_path: Path) -> Host:
    """A machine with a heap as the device tree names them."""
    (tmp_path / "sys/class/dma_heap/linux,cma").mkdir(parents=True)
    return Host.read(tmp_path)


@pytest.mark.parametrize("words", [[CMA, "memfd"], [f"{CMA},memfd"]])
def test_a_name_with_a_comma_can_be_asked_for_and_counts_as_named(words: list[str], box: Host) -> None:
    names = buffers_of(words, box)
    assert names == (CMA, "memfd")
    params = HandoffParams(
        Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"]), (Length(64, 64),), buffers=names
    )
    assert named_by_user(params, None, words, None) == [("buffer", CMA), ("buffer", "memfd")]
    assert named_by_user(params, None, ["all"], None) == []


def test_all_has_a_row_for_what_the_box_lacks(box: Host) -> None:
    names = buffers_of(["all"], box)
    assert names[-2:] == (CMA, "drm:card0")
    assert len(set(names)) == len(names)
