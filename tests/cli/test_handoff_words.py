"""The words of `--buffer`, where a kind's own name has a comma, and of `--state-dir`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zcopy.cli.handoff_params import buffers_of, named_by_user, state_dirs_of
from zcopy.errors import UsageError
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


@pytest.fixture
def app(tmp_path: Path) -> Any:
    """As much of an application as the words ask for."""
    return SimpleNamespace(settings=SimpleNamespace(cwd=tmp_path))


@pytest.mark.parametrize(
    "make", [lambda place: place.write_text("mine"), lambda place: place.symlink_to("nowhere")]
)
def test_a_state_folder_is_one_before_anything_is_measured(
    make: Callable[[Path], object], app: Any, tmp_path: Path
) -> None:
    place = tmp_path / "states"
    assert state_dirs_of(app, ["states"]) == (str(place),)
    make(place)
    for word in ("states", "states/below"):
        with pytest.raises(UsageError, match=rf"--state-dir {tmp_path}/{word}: {place} is not a folder"):
            state_dirs_of(app, [word])


def test_a_state_folder_that_cannot_be_written_is_told(
    app: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated: root may write almost anywhere."""
    monkeypatch.setattr("os.access", lambda path, _mode: path != tmp_path)
    with pytest.raises(UsageError, match=rf"--state-dir {tmp_path}/a/b: {tmp_path} cannot be written to"):
        state_dirs_of(app, [f"{tmp_path}/a/b"])
