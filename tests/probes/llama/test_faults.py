"""What servers do wrong, with real ones: files that are not what they were, restores that are not used, deaths."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import MeasurementError
from zcopy.model import Outcome
from zcopy.probes.llama.stage import EngineStage

pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("nothing_left")]

CELLS = 40
New = Callable[..., EngineStage]
TOKENS_AT = 24  # of the ids in a state file


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_forged_file_comes_back_byte_for_byte(stage: New) -> None:
    one = stage(forge=True)
    one.restore()
    assert one.slot.save("back.bin").bytes == one.file.bytes
    assert one.file.path.with_name("back.bin").read_bytes() == one.file.path.read_bytes()


@pytest.mark.parametrize("change", [-1, 1])
def test_no_server_is_given_a_file_of_another_length(change: int, stage: New) -> None:
    """One byte less would end it."""
    one = stage()
    os.truncate(one.file.path, one.file.bytes + change)
    with pytest.raises(
        MeasurementError, match=r"prompt.bin has \d+ bytes, expected are \d+: no server is given it"
    ):
        one.restore()
    os.kill(one.decoder_pid, 0)


def test_a_restore_that_is_not_used_is_failed_whatever_the_server_says(stage: New) -> None:
    """One changed token: all are restored, and those from there on are processed again."""
    one = stage(forge=True)
    token = one.tokens[10]
    patch(one.file.path, TOKENS_AT + 4 * 10, struct.pack("<I", token + 1))
    assert one.restore().tokens == CELLS
    with pytest.raises(
        MeasurementError, match=r"restored 40, re-used 10: the decoder processed 30 tokens again"
    ):
        one.reused(one.complete())


def test_after_a_refused_file_a_probe_completion_tells_of_the_slot(stage: New) -> None:
    one = stage(forge=True)
    layers_at = 28 + 4 * CELLS + 8 + 12 * CELLS + 4
    patch(one.file.path, layers_at, struct.pack("<I", 77))
    with pytest.raises(
        MeasurementError, match=r"HTTP 400: Unable to restore slot.*; the slot is (sound|poisoned)"
    ):
        one.restore()


def test_a_poisoned_slot_is_told(stage: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: what the slot said to a short prompt before is made another text."""
    from dataclasses import replace

    one = stage(forge=True)
    assert one._sound is not None
    monkeypatch.setattr(one, "_sound", replace(one._sound, text="something else"))
    patch(one.file.path, 4, struct.pack("<I", 3))
    with pytest.raises(
        MeasurementError, match=r"the slot is poisoned \(the text differs in a probe completion\)"
    ):
        one.restore()


@pytest.mark.parametrize("when", ["preparing file", "round 1, file", "round 2, shared"])
def test_a_decoder_that_dies_is_one_line_in_every_row_that_needs_it(when: str, measure: Any) -> None:
    def kill(what: str, *_: int) -> None:
        if when in what:
            for pid in children_of(os.getpid(), "serve.py"):
                os.kill(pid, signal.SIGKILL)

    ran = measure(progress=kill, reps=3)
    failed = [row for row in ran.rows if row.outcome is Outcome.FAILED]
    assert failed
    for row in failed:
        assert "SIGKILL" in str(row.reason)
        assert "\n" not in str(row.reason)


def children_of(parent: int, word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent and word.encode() in command:
                found.append(int(entry.name))
    return found
