"""The guest as `zcopy doctor` sees it, a run in the history, and what a killed run leaves."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.kernel

SMALL = ("handoff", "--model", "tiny", "--cells", "20", "--ctx", "64", "--reps", "2")
SECONDS = 60  # in the guest everything is slow

Call = Callable[..., Any]


def loaded_build_id(module: str) -> str:
    return Path(f"/sys/module/{module}/notes/.note.gnu.build-id").read_bytes()[16:].hex()


def test_doctor_sees_every_kind_device_and_driver(
    zcopy: Call, kinds: dict[str, Any], cards: dict[str, str]
) -> None:
    document = zcopy("doctor", "--json").document
    reasons = {each["buffer"]: each["reason"] for each in document["buffers"]}
    assert {kind: why for kind, why in reasons.items() if why is None} == dict.fromkeys(kinds)
    lacking = [why for why in reasons.values() if why is not None]
    assert len(lacking) == 9  # those of accelerators' drivers, of which this machine has none
    assert all(why.startswith("this box has no device of ") for why in lacking)
    nodes = {"/dev/udmabuf", "/dev/dma_heap/system", *(f"/dev/dri/{card}" for card in cards)}
    assert nodes <= {each["path"] for each in document["access"] if each["usable"]}
    drivers = {each["name"]: each for each in document["drivers"]}
    for driver in set(cards.values()):
        module = {"bochs-drm": "bochs"}.get(driver, driver).replace("-", "_")
        assert drivers[module]["build_id"] == loaded_build_id(module), driver
    assert len(drivers["udmabuf"]["build_id"]) == 40  # built in: the kernel's own


def test_a_run_is_saved_and_shown(zcopy: Call) -> None:
    done = zcopy(*SMALL, "--json", "--buffer", "udmabuf", "--route", "shared", "--label", "guest")
    assert done.code == 0, done.stderr
    assert done.document["saved"] is True
    (listed,) = zcopy("history", "list", "--json").document["runs"]
    assert listed["id"] == done.document["id"]
    shown = zcopy("history", "show", "@last", "--json").document
    assert shown == done.document
    assert "udmabuf" in str(shown["key"])


def processes(parent: int) -> set[int]:
    """The living children of a process."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, ppid = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(ppid) == parent and state != "Z":
            found.add(int(stat.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def test_a_killed_run_leaves_no_dma_buf_and_no_process(process: Call, dma_bufs: Callable[[], int]) -> None:
    before = dma_bufs()
    words = (
        *SMALL[:-1],
        "1000000",
        "--buffer",
        "udmabuf,dma-heap:system,drm:card0",
        "--route",
        "shared,file",
    )
    with process(*words) as run:
        until(lambda: dma_bufs() > before + 2 and len(processes(run.pid)) > 2)
        providers = processes(run.pid)
        run.send_signal(signal.SIGKILL)
        run.communicate()
    until(lambda: not any(map(alive, providers)))
    until(lambda: dma_bufs() == before)
