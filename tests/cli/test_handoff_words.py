"""The words of `--buffer`, where a kind's own name has a comma, and of `--state-dir`."""

from __future__ import annotations

import os
import subprocess
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
ROUTES = ("shared", "file")


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
    assert names[names.index(CMA) + 1] == "drm:card0"
    assert "rknpu:sram" in names
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
    assert state_dirs_of(app, ["states"], ROUTES) == (str(place),)
    make(place)
    for word in ("states", "states/below"):
        with pytest.raises(UsageError, match=rf"--state-dir {tmp_path}/{word}: {place} is not a folder"):
            state_dirs_of(app, [word], ROUTES)


def test_a_state_folder_that_cannot_be_written_is_told(
    app: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated: root may write almost anywhere."""
    monkeypatch.setattr("os.access", lambda path, _mode, **_more: path != tmp_path)
    reason = f"{tmp_path} cannot be written to: Permission denied"
    with pytest.raises(UsageError, match=f"--state-dir {tmp_path}/a/b: {reason}"):
        state_dirs_of(app, [f"{tmp_path}/a/b"], ROUTES)


def test_a_read_only_file_system_is_told(app: Any, tmp_path: Path) -> None:
    mounted = os.geteuid() == 0 and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "ro", "none", str(tmp_path)], stderr=subprocess.DEVNULL
    )
    if not mounted:
        pytest.skip("mounting takes root")
    try:
        with pytest.raises(UsageError, match="cannot be written to: Read-only file system"):
            state_dirs_of(app, ["states"], ROUTES)
    finally:
        subprocess.check_call(["umount", str(tmp_path)])


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("~no-such-user/states", "no such user"),
        ("a" * 300, "File name too long"),
        (f"none/{'a' * 300}", "File name too long"),
        ("abc/" * 1100, "File name too long"),
    ],
)
def test_a_name_that_no_folder_can_have(word: str, reason: str, app: Any) -> None:
    with pytest.raises(UsageError, match=f"--state-dir .*: {reason}"):
        state_dirs_of(app, [word], ROUTES)


def test_the_usual_folder_is_looked_at_where_a_route_needs_it(
    app: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert state_dirs_of(app, None, ROUTES) == (f"{tmp_path}/zcopy",)
    (tmp_path / "zcopy").write_text("mine")
    assert state_dirs_of(app, None, ("shared", "pipe")) == (f"{tmp_path}/zcopy",)
    with pytest.raises(UsageError, match=f"{tmp_path}/zcopy is not a folder") as caught:
        state_dirs_of(app, None, ROUTES)
    assert "--state-dir" in caught.value.hint
