from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import BusyError
from zcopy.locks import Held, LockSettings
from zcopy.locks.nesting import parse_tokens

SECOND = 10**9
Start = Callable[..., Any]


def siblings(folder: Path, *devices: str, **more: Any) -> list[dict[str, Any]]:
    """Two workers for the same devices, to be run at once."""
    common = {"devices": devices, "hold_s": 0.3, "journal": str(folder / "journal"), **more}
    return [{"label": "a", **common}, {"label": "b", **common}]


def assert_apart(folder: Path, count: int = 2) -> None:
    """Every hold in the journal ended before the next began."""
    words = [line.split() for line in (folder / "journal").read_text().splitlines()]
    assert [word for word, _ in words] == ["begin", "end"] * count
    assert all(begin[1] == end[1] for begin, end in zip(words[::2], words[1::2], strict=True))


def states_of(run: Any, count: int) -> list[dict[str, str]]:
    return [run.expect("held")["states"] for _ in range(count)]


def test_two_children_of_a_hold_are_nested_and_exclude_each_other(folder: Path, worker: Start) -> None:
    outer = worker("gpu0", children=siblings(folder, "gpu0"))
    assert states_of(outer, 3) == [{"gpu0": "held"}, {"gpu0": "nested"}, {"gpu0": "nested"}]
    assert outer.finish() == 0
    assert_apart(folder)


def test_nothing_is_left_but_the_lock_and_its_note(folder: Path, worker: Start) -> None:
    outer = worker("gpu0", children=[{"devices": ["gpu0"], "hold_s": 0}])
    assert outer.finish() == 0
    assert {path.name for path in folder.iterdir()} == {"gpu0.lock", "gpu0.note"}


def test_what_a_killed_child_left_goes_with_the_hold(folder: Path, worker: Start) -> None:
    outer = worker("gpu0")
    child = worker("gpu0", environ=outer.expect("held")["environ"])
    child.expect("held")
    child.kill()
    assert list(folder.glob("inner-*"))
    outer.finish()
    assert not list(folder.glob("inner-*"))


def test_children_of_a_hold_on_two_devices_take_turns_on_both(folder: Path, worker: Start) -> None:
    outer = worker("cpu", "gpu0", children=siblings(folder, "gpu0", "cpu"))
    nested = {"cpu": "nested", "gpu0": "nested"}
    assert states_of(outer, 3)[1:] == [nested, nested]
    assert outer.finish() == 0
    assert_apart(folder)


def test_a_child_may_wait_for_a_sibling_on_the_first_of_two_devices(folder: Path, worker: Start) -> None:
    """The later device is held around both of them, so nobody who has the first can wait for it."""
    outer = worker("cpu", "gpu0", children=siblings(folder, "cpu"))
    assert states_of(outer, 3)[1:] == [{"cpu": "nested"}, {"cpu": "nested"}]
    assert outer.finish() == 0
    assert_apart(folder)


def test_a_hold_in_a_hold_in_a_hold(folder: Path, worker: Start) -> None:
    inner = {"dir": str(folder), "devices": ["gpu0"], "label": "in", "children": siblings(folder, "gpu0")}
    outer = worker("gpu0", children=[inner])
    assert states_of(outer, 4)[1:] == [{"gpu0": "nested"}] * 3
    assert outer.finish() == 0
    assert_apart(folder)


def test_the_hash_of_the_token_stands_in_the_lock_file_while_it_is_held(
    folder: Path, take: Callable[..., Held]
) -> None:
    with take("gpu0", label="a label") as held:
        digest = hashlib.sha256(held.environ["ZCOPY_HELD"].encode()).hexdigest()
        text = (folder / "gpu0.lock").read_text()
        assert digest in text and "a label" in text
        assert held.environ["ZCOPY_HELD"] not in text
        size = (folder / "gpu0.lock").stat().st_size
    text = (folder / "gpu0.lock").read_text()
    assert digest not in text and "a label" not in text
    assert (folder / "gpu0.lock").stat().st_size == size


def test_a_new_device_inside_a_hold_is_really_held(folder: Path, worker: Start) -> None:
    outer = worker("cpu", children=siblings(folder, "gpu0"))
    assert states_of(outer, 3)[1:] == [{"gpu0": "held"}, {"gpu0": "held"}]
    outer.finish()
    assert_apart(folder)


@pytest.mark.parametrize("forged", ["gpu0=" + "0" * 32, "nonsense", "a:b:c", "=" + "0" * 32])
def test_a_forged_token_queues(forged: str, worker: Start) -> None:
    worker("gpu0").expect("held")
    other = worker("gpu0", environ={"ZCOPY_HELD": forged}, wait_ns=SECOND // 2)
    assert other.expect("error")["kind"] == "BusyError"


def test_the_hash_is_no_token(worker: Start) -> None:
    token = worker("gpu0").expect("held")["environ"]["ZCOPY_HELD"]
    digest = hashlib.sha256(token.encode()).hexdigest()
    other = worker("gpu0", environ={"ZCOPY_HELD": digest}, wait_ns=SECOND // 2)
    assert other.expect("error")["kind"] == "BusyError"


def test_a_token_works_without_any_kinship(worker: Start) -> None:
    token = worker("gpu0").expect("held")["environ"]
    assert worker("gpu0", environ=token).expect("held")["states"] == {"gpu0": "nested"}


def test_the_token_of_a_killed_holder_takes_or_queues_on_the_real_lock(
    folder: Path, worker: Start, script: Start, free: Callable[[Path], bool]
) -> None:
    holder = worker("gpu0")
    token = holder.expect("held")["environ"]
    holder.kill()
    other = script(folder / "gpu0.lock")
    late = worker("gpu0", environ=token, wait_ns=SECOND // 4)
    assert late.expect("error")["kind"] == "BusyError"
    os.killpg(other.pid, signal.SIGKILL)
    orphan = worker("gpu0", environ=token)
    assert orphan.expect("held")["states"] == {"gpu0": "held"}
    assert not free(folder / "gpu0.lock")


@pytest.mark.parametrize("end", ["finish", "kill"])
def test_a_child_that_outlives_the_hold_while_waiting_takes_the_real_lock(
    end: str,
    folder: Path,
    worker: Start,
    until_waiting: Callable[[Path, int], None],
    free: Callable[[Path], bool],
) -> None:
    outer = worker("gpu0")
    token = outer.expect("held")["environ"]
    first = worker("gpu0", environ=token)
    first.expect("held")
    second = worker("gpu0", environ=token)
    (inner,) = folder.glob("inner-*")
    until_waiting(inner, 1)
    getattr(outer, end)()
    first.finish()
    assert second.expect("held")["states"] == {"gpu0": "held"}
    assert not free(folder / "gpu0.lock")


def test_against_the_order_a_nested_request_never_waits_and_names_both(worker: Start) -> None:
    busy = worker("cpu")
    busy.expect("held")
    token = worker("gpu0").expect("held")["environ"]
    inside = worker("cpu", environ=token)  # would wait for ever
    error = inside.expect("error", within_s=5)
    assert error["exit"] == 75
    for part in ("cpu", "gpu0", "deadlock", f"pid {busy.process.pid}"):
        assert part in error["message"]
    assert "hold cpu gpu0" in error["hint"]
    busy.finish()
    assert worker("cpu", environ=token).expect("held")["states"] == {"cpu": "held"}


def test_a_stale_token_of_a_later_device_does_not_forbid_to_wait(worker: Start) -> None:
    outer = worker("gpu0")
    token = outer.expect("held")["environ"]
    outer.kill()
    worker("cpu").expect("held")
    waiter = worker("cpu", environ=token, wait_ns=SECOND // 2)
    assert "deadlock" not in waiter.expect("error")["message"]


def test_against_the_order_counts_for_inner_holds_too(worker: Start) -> None:
    token = worker("cpu", "gpu0").expect("held")["environ"]
    deeper = worker("gpu0", environ=token).expect("held")["environ"]
    worker("cpu", environ=token).expect("held")
    error = worker("cpu", environ=deeper).expect("error", within_s=5)
    assert "deadlock" in error["message"]


def test_inside_a_scripts_hold_one_is_nested(folder: Path, worker: Start) -> None:
    inside = worker("gpu0", via=("flock", str(folder / "gpu0.lock")), hold_s=0)
    assert inside.expect("held")["states"] == {"gpu0": "nested"}


def test_children_of_a_script_exclude_each_other(folder: Path, worker: Start) -> None:
    one = siblings(folder, "gpu0")
    outer = worker("cpu", via=("flock", "-o", str(folder / "gpu0.lock")), children=one)
    assert states_of(outer, 3)[1:] == [{"gpu0": "nested"}, {"gpu0": "nested"}]
    outer.finish()
    assert_apart(folder)
    assert not list(folder.glob("inner-*"))


def test_a_script_that_locked_an_open_file_of_its_own(folder: Path, worker: Start) -> None:
    """As scripts do it: `flock 9` has ended when we start; it is the shell that has the lock."""
    shell = ("sh", "-c", f'exec 9>"{folder}/gpu0.lock"; flock 9; "$@"; exit', "sh")
    inside = worker("gpu0", via=shell, hold_s=0)
    assert inside.expect("held")["states"] == {"gpu0": "nested"}
    replaced = ("sh", "-c", f'exec 9>"{folder}/gpu0.lock"; flock 9; exec "$@"', "sh")
    inside = worker("gpu0", via=replaced, hold_s=0)
    assert inside.expect("held")["states"] == {"gpu0": "nested"}


def test_a_scripts_later_device_forbids_to_wait(folder: Path, worker: Start) -> None:
    worker("cpu").expect("held")
    inside = worker("cpu", via=("flock", str(folder / "gpu0.lock")))
    assert "deadlock" in inside.expect("error", within_s=5)["message"]


def test_a_hold_is_known_by_kinship_when_the_token_was_scrubbed(folder: Path, worker: Start) -> None:
    """As sudo and env -i do; children with and without the token still meet at one inner lock."""
    one, other = siblings(folder, "gpu0")
    outer = worker("gpu0", children=[one, {**other, "scrubbed": True}])
    assert states_of(outer, 3)[1:] == [{"gpu0": "nested"}] * 2
    assert outer.finish() == 0
    assert_apart(folder)


def test_a_stranger_to_a_scripts_hold_waits(folder: Path, script: Start, worker: Start) -> None:
    script(folder / "gpu0.lock")
    other = worker("gpu0", wait_ns=SECOND // 2)
    assert other.expect("error")["kind"] == "BusyError"


def test_a_hold_survives_a_script_that_empties_the_lock_file(folder: Path, worker: Start) -> None:
    """`exec 9>FILE` truncates it: those inside are still inside, and outsiders still read the label."""
    token = worker("gpu0", label="kept").expect("held")["environ"]
    (folder / "gpu0.lock").write_text("")
    assert worker("gpu0", environ=token).expect("held")["states"] == {"gpu0": "nested"}
    assert 'label "kept"' in worker("gpu0").expect("notice")["text"]


def test_a_sites_file_can_be_nested_too(folder: Path, worker: Start) -> None:
    files = {"gpu0": str(folder / "site")}
    token = worker("gpu0", files=files).expect("held")["environ"]
    assert worker("gpu0", files=files, environ=token).expect("held")["states"] == {"gpu0": "nested"}
    assert (folder / "site").read_bytes() == b""


def test_one_process_can_nest_by_its_token(folder: Path, take: Callable[..., Held]) -> None:
    with take("gpu0") as outer:
        with pytest.raises(BusyError):
            take("gpu0")  # without it, its own hold is a hold like any other
        token = outer.environ["ZCOPY_HELD"]
        with take("gpu0", settings=LockSettings(lock_dir=folder, token=token)) as inner:
            assert inner.states[0].state == "nested"
            assert parse_tokens(inner.environ["ZCOPY_HELD"])[0].text == token
