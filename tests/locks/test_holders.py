from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import BusyError
from zcopy.locks import Held, Holder, LockSettings, lock_reports
from zcopy.locks.notes import clean
from zcopy.locks.procfs import FileId, LockLine, ancestors, parse_lock, started_ns

Start = Callable[..., Any]


def test_a_lock_line_is_read() -> None:
    line = "1: FLOCK  ADVISORY  WRITE 7283 fe:00:2146317 0 EOF"
    assert parse_lock(line) == LockLine(FileId("fe:00", 2146317), 7283, waiting=False)


def test_a_waiting_lock_line_is_read() -> None:
    line = "1: -> FLOCK  ADVISORY  WRITE 7407 00:1b:9 0 EOF"
    assert parse_lock(line) == LockLine(FileId("00:1b", 9), 7407, waiting=True)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "1: POSIX  ADVISORY  WRITE 7283 fe:00:21 0 EOF",
        "1: OFDLCK ADVISORY  READ -1 00:06:9 0 EOF",
        "1: FLOCK",
    ],
)
def test_other_locks_are_passed_over(line: str) -> None:
    assert parse_lock(line) is None


def test_ancestors_are_found_up_to_the_first_process() -> None:
    chain = ancestors(os.getpid())
    assert chain[0] == os.getppid()
    assert chain[-1] == 1


def test_a_script_is_named_with_its_command(folder: Path, script: Start, take: Callable[..., Held]) -> None:
    holder = script(folder / "gpu0.lock")
    with pytest.raises(
        BusyError, match=rf"held by \w+ \(pid {holder.pid}, .flock {folder}/gpu0.lock"
    ) as busy:
        take("gpu0")
    assert "running since 20" in busy.value.message


def test_the_holder_is_named_and_not_the_dead_opener(folder: Path, take: Callable[..., Held]) -> None:
    """/proc/locks names the flock(1) that ended; the shell has the lock."""
    code = f'exec 9>"{folder}/gpu0.lock"; flock 9; echo locked; read x'
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", code], stdin=pipe, stdout=pipe, text=True) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "locked\n"
        with pytest.raises(BusyError, match=rf"held by .*pid {shell.pid}, .sh -c exec 9>"):
            take("gpu0")


def test_a_workload_that_outlives_its_holder_is_named(worker: Start, take: Callable[..., Held]) -> None:
    holder = worker("gpu0", label="outlived", command=["sleep", "60"])
    workload = holder.expect("running")["pid"]
    holder.kill()
    try:
        with pytest.raises(BusyError, match=rf"held by \w+ \(pid {workload}, .sleep 60.") as busy:
            take("gpu0")
        assert 'label "outlived"' in busy.value.message
    finally:
        os.kill(workload, signal.SIGKILL)


def test_a_report_names_holder_and_waiters_and_takes_nothing(
    folder: Path, worker: Start, until_waiting: Callable[[Path, int], None]
) -> None:
    settings = LockSettings(lock_dir=folder)
    holder = worker("gpu0", label="busy")
    holder.expect("held")
    waiter = worker("gpu0")
    until_waiting(folder / "gpu0.lock", 1)
    cpu, gpu = lock_reports(settings, ["gpu0", "cpu"])
    assert (cpu.device, cpu.use.holder) == ("cpu", None)
    assert not (folder / "cpu.lock").exists()
    assert gpu.use.holder is not None
    assert (gpu.use.holder.pid, gpu.use.holder.label) == (holder.process.pid, "busy")
    assert gpu.use.waiting == (waiter.process.pid,)
    waiter.kill()
    holder.finish()
    (gpu,) = lock_reports(settings)
    assert gpu.use.holder is None


def test_a_report_of_a_killed_holder_says_free(folder: Path, worker: Start) -> None:
    holder = worker("gpu0", label="killed")
    holder.expect("held")
    holder.kill()
    (report,) = lock_reports(LockSettings(lock_dir=folder))
    assert report.use.holder is None


def test_text_of_others_cannot_reach_the_terminal() -> None:
    assert clean("a\x1b[31mb\x9bc\u202ed\ne\udc80f\0") == "a[31mbcd ef"
    assert clean("x" * 100, 10) == "xxxxxxx..."


def test_a_hostile_label_is_cleaned_by_reader_and_writer(worker: Start) -> None:
    worker("gpu0", label="\x1b]0;owned\x07 " + "ü" * 500).expect("held")
    text = worker("gpu0").expect("notice")["text"]
    assert "\x1b" not in text and "\x07" not in text
    assert "ü" * 40 in text and "ü" * 80 not in text


def test_garbage_in_place_of_a_note_is_no_note(folder: Path, worker: Start) -> None:
    worker("gpu0").expect("held")
    for garbage in (
        b"\xff" * 4096,
        b"zcopy-lock [1]",
        b"zcopy-lock {",
        b'zcopy-lock {"digest": 1}',
        b"zcopy-lock 7",
    ):
        for name in ("gpu0.lock", "gpu0.note"):
            (folder / name).write_bytes(garbage)
        assert "label" not in worker("gpu0").expect("notice")["text"]


def test_what_is_hidden_is_said_so() -> None:
    assert "hidden" in Holder(None).text(0)
    opened = Holder(12, certain=False).text(0)
    assert opened == "opened by pid 12, ended or hidden"
    assert "and 2 more" in Holder(12, "ada", "make", others=2).text(0)


def test_since_says_how_long() -> None:
    text = Holder(1, "ada", "make", "x", since_ns=0, noted=True).text(90 * 10**9)
    assert text == 'held by ada (pid 1, "make"), label "x", since 1970-01-01T00:00:00Z (1 min 30 s)'


def test_the_start_of_a_process_lies_in_the_past() -> None:
    started = started_ns(os.getpid())
    assert started is not None
    assert 0 < time.time_ns() - started < 3600 * 10**9
