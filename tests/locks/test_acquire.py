from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import BusyError
from zcopy.locks import Held, LockSettings

SECOND = 10**9
Start = Callable[..., Any]


def test_a_free_lock_is_held_until_the_end_of_the_block(
    folder: Path, take: Callable[..., Held], free: Callable[[Path], bool]
) -> None:
    with take("gpu0") as held:
        assert [(lock.device, lock.state) for lock in held.states] == [("gpu0", "held")]
        assert not free(folder / "gpu0.lock")
    assert free(folder / "gpu0.lock")
    held.release()  # once more does no harm
    assert held.fds == ()


def test_a_lock_of_flock_is_waited_for(folder: Path, script: Start, take: Callable[..., Held]) -> None:
    holder = script(folder / "gpu0.lock", "sleep", "0.5")
    with take("gpu0", wait_ns=None) as held:
        assert held.states[0].state == "held"
    assert holder.wait(5) == 0


def test_flock_waits_for_our_lock(folder: Path, worker: Start) -> None:
    one = worker("gpu0")
    one.expect("held")
    other = subprocess.Popen(["flock", str(folder / "gpu0.lock"), "true"])
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.3)
    one.finish()
    assert other.wait(5) == 0


def test_the_holder_is_named_within_a_second_and_the_deadline_kept(worker: Start) -> None:
    holder = worker("gpu0", label="night run [/x]")
    holder.expect("held")
    waiter = worker("gpu0", wait_ns=2 * SECOND)
    begun = waiter.expect("start")["at"]
    notice = waiter.expect("notice")
    assert notice["at"] - begun < 1
    for part in ("gpu0", f"pid {holder.process.pid}", "worker.py", 'label "night run [/x]"', "since 20"):
        assert part in notice["text"]
    error = waiter.expect("error")
    assert 2.0 <= error["at"] - begun < 2.5
    assert (error["kind"], error["exit"]) == ("BusyError", 75)
    assert f"pid {holder.process.pid}" in error["message"]
    assert "--wait" in error["hint"]
    assert waiter.finish() == 75


def test_a_try_names_the_holder_and_says_nothing_else(worker: Start, take: Callable[..., Held]) -> None:
    holder = worker("gpu0")
    holder.expect("held")
    said: list[str] = []
    with pytest.raises(BusyError, match=rf"gpu0 is busy: held by \w+ \(pid {holder.process.pid}"):
        take("gpu0", notify=said.append)
    assert said == []


def test_a_long_wait_is_spoken_of_again(worker: Start) -> None:
    worker("gpu0").expect("held")
    waiter = worker("gpu0", notice_after_ns=SECOND // 20, notice_every_ns=SECOND // 5)
    assert "so far" not in waiter.expect("notice")["text"]
    assert "so far" in waiter.expect("notice")["text"]
    assert "so far" in waiter.expect("notice")["text"]


def test_waiters_are_served_in_the_order_of_arrival(
    folder: Path, worker: Start, until_waiting: Callable[[Path, int], None]
) -> None:
    holder = worker("gpu0")
    holder.expect("held")
    waiters = []
    for number in range(5):
        waiters.append(worker("gpu0", label=str(number), hold_s=0.05, journal=str(folder / "journal")))
        until_waiting(folder / "gpu0.lock", number + 1)
    holder.finish()
    for waiter in waiters:
        waiter.expect("released")
    begun = [line for line in (folder / "journal").read_text().splitlines() if line.startswith("begin")]
    assert begun == [f"begin {number}" for number in range(5)]


def test_who_gave_up_does_not_keep_the_lock_when_its_turn_comes(
    folder: Path, worker: Start, take: Callable[..., Held], free: Callable[[Path], bool]
) -> None:
    holder = worker("gpu0")
    holder.expect("held")
    with pytest.raises(BusyError) as busy:
        take("gpu0", wait_ns=SECOND)
    assert busy.tb is not None  # its frames keep the lock file: that it is closed is not the collector's work
    assert any(thread.name == "lock gpu0" for thread in threading.enumerate())
    holder.finish()
    deadline = time.monotonic() + 5
    while any(thread.name == "lock gpu0" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert free(folder / "gpu0.lock")


def test_a_deadline_leaves_none_of_several_locks(
    folder: Path, worker: Start, free: Callable[[Path], bool]
) -> None:
    worker("gpu0").expect("held")
    waiter = worker("npu0", "gpu0", "cpu", wait_ns=SECOND // 5)
    assert "gpu0" in waiter.expect("error")["message"]
    assert free(folder / "cpu.lock")
    assert free(folder / "npu0.lock")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait(
    number: signal.Signals, folder: Path, worker: Start, until_waiting: Callable[[Path, int], None]
) -> None:
    worker("gpu0").expect("held")
    waiter = worker("cpu", "gpu0")
    until_waiting(folder / "gpu0.lock", 1)
    waiter.process.send_signal(number)
    assert waiter.process.wait(5) != 0


def test_an_exception_from_a_signal_handler_ends_the_wait_and_frees_all(
    folder: Path, worker: Start, take: Callable[..., Held], free: Callable[[Path], bool]
) -> None:
    worker("gpu0").expect("held")

    class Stop(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stop

    old = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Stop):
            take("cpu", "gpu0", wait_ns=None)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, old)
    assert free(folder / "cpu.lock")


def test_waiting_works_outside_the_main_thread(worker: Start, take: Callable[..., Held]) -> None:
    holder = worker("gpu0")
    holder.expect("held")
    states: list[str] = []

    def run() -> None:
        with take("gpu0", wait_ns=None) as held:
            states.append(held.states[0].state)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    holder.finish()
    thread.join(5)
    assert states == ["held"]


def test_a_killed_holder_frees_the_lock_and_its_note_is_not_believed(
    worker: Start, script: Start, folder: Path, take: Callable[..., Held]
) -> None:
    holder = worker("gpu0", label="was killed")
    holder.expect("held")
    waiter = worker("gpu0", hold_s=0)
    waiter.expect("notice")
    holder.kill()
    waiter.expect("released")
    holder = worker("gpu0", label="was killed")
    holder.expect("held")
    holder.kill()
    assert "was killed" in (folder / "gpu0.lock").read_text()
    script(folder / "gpu0.lock")
    with pytest.raises(BusyError) as busy:
        take("gpu0")
    assert "label" not in busy.value.message


def test_opposite_orders_do_not_deadlock(folder: Path, worker: Start) -> None:
    rounds = {"rounds": 50, "hold_s": 0.001, "journal": str(folder / "journal")}
    one = worker("gpu0", "npu0", label="one", **rounds)
    two = worker("npu0", "gpu0", label="two", **rounds)
    one.expect("released", within_s=30)
    two.expect("released", within_s=30)
    lines = (folder / "journal").read_text().splitlines()
    assert len(lines) == 200
    assert all(
        (begin.split()[0], end.split()[0], begin.split()[1]) == ("begin", "end", end.split()[1])
        for begin, end in zip(lines[::2], lines[1::2], strict=True)
    )


def test_a_lock_file_removed_while_one_waits_is_made_anew(
    folder: Path, worker: Start, until_waiting: Callable[[Path, int], None], free: Callable[[Path], bool]
) -> None:
    holder = worker("gpu0")
    holder.expect("held")
    waiter = worker("gpu0")
    until_waiting(folder / "gpu0.lock", 1)
    (folder / "gpu0.lock").unlink()
    holder.finish()
    waiter.expect("held")
    assert not free(folder / "gpu0.lock")


def test_a_child_that_inherited_the_file_does_not_keep_a_released_lock(
    folder: Path, take: Callable[..., Held], free: Callable[[Path], bool]
) -> None:
    held = take("gpu0")
    child = subprocess.Popen(["sleep", "30"], pass_fds=held.fds)
    try:
        held.release()
        assert free(folder / "gpu0.lock")
    finally:
        child.kill()
        child.wait()


def test_a_forked_copy_does_not_release_the_lock(
    folder: Path, take: Callable[..., Held], free: Callable[[Path], bool]
) -> None:
    held = take("gpu0", label="still here")
    pid = os.fork()
    if pid == 0:
        held.release()
        del held  # closes the files
        os._exit(0)
    os.waitpid(pid, 0)
    assert not free(folder / "gpu0.lock")
    assert "still here" in (folder / "gpu0.lock").read_text()
    held.release()


def test_locks_leave_no_files_open(take: Callable[..., Held]) -> None:
    take("cpu", "gpu0").release()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(100):
        take("cpu", "gpu0").release()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_many_first_runs_at_once_all_get_the_lock(tmp_path: Path, worker: Start) -> None:
    runs = [worker("cpu", dir=str(tmp_path / "new"), hold_s=0.01) for _ in range(12)]
    for run in runs:
        run.expect("released")


def test_settings_are_not_shared() -> None:
    assert LockSettings().files == {}
    assert LockSettings().notice_after_ns < SECOND
