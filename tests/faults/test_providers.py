"""Providers that misbehave: one failed row each, with a reason, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.model import Outcome, Row
from zcopy.native import fds
from zcopy.native.cells import Adoption, CellTable
from zcopy.native.channel import PeerError
from zcopy.native.provider import Provider, Request, helper
from zcopy.native.region import Region
from zcopy.native.rows import K, Layout, Tensor
from zcopy.native.wire import Op, Slot

Command = Callable[..., tuple[str, ...]]
Measure = Callable[..., list[Row]]

pytestmark = pytest.mark.usefixtures("nothing_left")

NOT_EXPECTED = r"the provider sent a message that is not the expected one"
NOT_ASKED = r"the provider sent a descriptor that nobody asked for"
NO_TIMES = r"the provider tells times that cannot be on this box's CLOCK_MONOTONIC"

REASONS = {
    "DiesAtOnce": r"the provider is gone \(exit code 3\)",
    "DiesAfterHello": r"the provider is gone \(exit code 4\)",
    "DiesOnRegion": r"the provider is gone \(exit code 5\)",
    "DiesAfterRegion": r"the provider is gone \(exit code 4\)",
    "DiesInRequest": r"the provider is gone \(killed by SIGKILL\)",
    "ClosesItsSocket": r"the provider is gone: it has closed its socket",
    "SendsNoBytes": r"the provider is gone: it has closed its socket",
    "Floods": NOT_EXPECTED,
    "AnswersTwice": NOT_EXPECTED,
    "Short": NOT_EXPECTED,
    "HeadOnly": NOT_EXPECTED,
    "Long": NOT_EXPECTED,
    "Huge": r"the provider sent a message longer than the protocol allows",
    "LiesAboutLength": NOT_EXPECTED,
    "WrongRequest": NOT_EXPECTED,
    "WrongKind": NOT_EXPECTED,
    "WrongMagic": NOT_EXPECTED,
    "WrongVersion": r"the provider speaks another version of the protocol than 1",
    "WrongRole": r"the provider says that its role is 1, not a provider's",
    "Refuses": r"the provider refused: out of tokens",
    "RefusesHostile": r"the provider refused: \?\[31mred\?\[0m\?zcopy: ok\?+\[bold\]markup\[/bold\] \?.*",
    "RefusesWithoutEnd": r"the provider refused: x{239}",
    "RefusesWithoutReason": r"the provider refused: it gives no reason",
    "RefusesAndLeaves": r"the provider refused: no such model here",
    "SendsDescriptors": NOT_ASKED,
    "SendsTwoDescriptors": NOT_ASKED,
    "SendsManyDescriptors": r"the provider sent a descriptor that was dropped on the way \(MSG_CTRUNC\)",
    "LiesAboutBytes": r"the provider says that it wrote 32767 bytes, the request has 32768",
    "LiesAboutTimes": NO_TIMES,
    "SentInTheFuture": NO_TIMES,
    "MapsYesterday": NO_TIMES,
    "LiesAboutFaults": r"the provider counts page faults that cannot be",
    "WritesNothing": r"wrong row: layer 0 K cell 0 byte 0",
}
LATE = {
    "SaysNothing": r"the provider did not answer in time",
    "HangsInRequest": r"the provider did not answer in time",
    "HangsWithChild": r"the provider did not answer in time",
    "Deaf": r"the provider did not answer in time",
}


def assert_failed(row: Row, reason: str) -> None:
    """Failed, for this reason and no other, told in one printable line."""
    assert (row.outcome, row.verified, row.gbps) == (Outcome.FAILED, False, None), row.reason
    assert row.reason is not None
    assert re.fullmatch(reason, row.reason), row.reason
    assert row.reason.isprintable()


@pytest.mark.parametrize("mode", REASONS)
def test_a_fault_fails_its_rows_with_one_line(mode: str, peer: Command, measure: Measure) -> None:
    rows = measure(peer(mode))
    assert [row.case["route"] for row in rows] == ["shared", "copy"]
    for row in rows:
        assert_failed(row, REASONS[mode])


@pytest.mark.parametrize("mode", LATE)
def test_a_silent_provider_costs_its_deadline_and_no_more(mode: str, peer: Command, measure: Measure) -> None:
    began = time.monotonic()
    (row,) = measure(peer(mode), routes=["shared"], deadline_ns=300_000_000)
    assert_failed(row, LATE[mode])
    assert 0.3 <= time.monotonic() - began < 4.0  # well below the grace that a sound provider has


def test_a_row_too_many_is_seen(peer: Command, measure: Measure) -> None:
    (row,) = measure(peer("OneRowTooMany"), routes=["shared"])
    assert_failed(row, r"overwritten: layer 0 K cell 16 byte 0, which must not be written")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", ["AnotherUser", "AnotherUserLater"])
def test_another_user_is_refused(mode: str, peer: Command, measure: Measure) -> None:
    for row in measure(peer(mode)):
        assert_failed(row, r"the provider runs as another user \(uid 65534, we as 0\)")


def test_children_of_a_provider_end_with_it(peer: Command, measure: Measure) -> None:
    before = asleep()
    measure(peer("HangsWithChild"), routes=["shared"], deadline_ns=300_000_000)
    deadline = time.monotonic() + 5
    while asleep() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert asleep() == before


def asleep() -> set[int]:
    """The processes that a HangsWithChild leaves when nobody ends them."""
    found = set()
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command.read_bytes().split(b"\0")[:2] == [b"sleep", b"600.0"]:
                found.add(int(command.parent.name))
        except OSError:
            continue
    return found


# One misbehaving provider, and sound ones after it: the other rows of the run come, and are good.

ALL = ("shared", "file", "copy", "pipe")


@pytest.mark.parametrize(
    "mode", ["DiesAtOnce", "DiesInRequest", "WrongRequest", "Refuses", "SendsTwoDescriptors"]
)
def test_the_other_rows_come(mode: str, peer: Command, measure: Measure, tmp_path: Path) -> None:
    rows = measure(peer(mode, once=tmp_path / "flag"), routes=ALL)
    assert_failed(rows[0], REASONS[mode])
    assert [(row.case["route"], row.outcome, row.reason) for row in rows[1:]] == [
        (route, Outcome.OK, None) for route in ALL[1:]
    ]


@pytest.mark.parametrize("mode", ["DiesInRequest", "WrongRequest", "RefusesAndLeaves"])
def test_a_shared_provider_is_replaced(mode: str, peer: Command, measure: Measure, tmp_path: Path) -> None:
    """The routes that move bytes have one provider between them: what it did to one must not reach the next."""
    first, *others = measure(peer(mode, once=tmp_path / "flag"), routes=("copy", "file", "pipe"))
    assert_failed(first, REASONS[mode])
    assert [row.outcome for row in others] == [Outcome.OK] * 2


def test_cells_of_a_failed_row_are_free_again(peer: Command, measure: Measure, tmp_path: Path) -> None:
    """The fault comes after the rows were adopted: the next variant adopts the same cells."""
    streamed, copied = measure(peer("Streams", once=tmp_path / "flag"), routes=("pipe", "copy"))
    assert_failed(streamed, NOT_EXPECTED)
    assert (copied.outcome, copied.reason) == (Outcome.OK, None)


def test_a_hang_does_not_take_the_others_along(peer: Command, measure: Measure, tmp_path: Path) -> None:
    first, *others = measure(
        peer("HangsInRequest", once=tmp_path / "flag"), routes=ALL, deadline_ns=500_000_000
    )
    assert_failed(first, LATE["HangsInRequest"])
    assert [row.outcome for row in others] == [Outcome.OK] * 3


@pytest.mark.parametrize("route", ["shared", "file", "copy", "pipe"])
def test_a_provider_killed_between_rounds(route: str, measure: Measure) -> None:
    """Whoever asks it next fails; the other routes go on with another one."""
    killed: list[int] = []

    def progress(what: str, _done: int, _steps: int) -> None:
        if not killed and f"round 2, {route}" in what:
            killed.extend(providers())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    rows = measure((), routes=ALL, progress=progress)
    failed = [row for row in rows if row.outcome is not Outcome.OK]
    assert len(killed) == 2
    assert 1 <= len(failed) <= 2  # the shared region's, and one of the three that have the other between them
    for row in failed:
        assert_failed(row, r"the provider is gone \(killed by SIGKILL\)")


def providers() -> list[int]:
    """Our children that are providers."""
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    pids = [int(pid) for pid in own.read_text().split()]
    return [pid for pid in pids if "zcopy-provider" in Path(f"/proc/{pid}/cmdline").read_text()]


# The owner of the process, by itself.


def provider(command: tuple[str, ...], deadline_ns: int = 20 * 10**9) -> Provider:
    return Provider.started(
        command, deadline_ns=deadline_ns, ticks=time.monotonic_ns, environ=dict(os.environ)
    )


def test_killed_in_the_middle_of_a_write() -> None:
    size = 96 << 20
    layout = Layout([Tensor(0, 4096, 0, 4096, 0, 0, K)], size // 4096, size, [(0, size // 4096)])
    with Region(fds.memfd("zcopy-kill", size), size) as region:
        own = provider((str(helper("zcopy-provider")),))
        own.tensors(Slot.REGION, layout, (1, 1))
        own.map(Slot.REGION, region.export())
        request = own.begin(Request(Op.WRITE, 5))
        first = region.view()
        while not any(first[:8]):
            time.sleep(0.0001)
        os.kill(own.pid, signal.SIGKILL)
        del first
        table = CellTable(size // 4096)
        with pytest.raises(PeerError, match=r"the provider is gone \(killed by SIGKILL\)"):
            own.take_over(request, table, Adoption(range(16), [0]))
        assert table.used == 0
        own.close()
        own.close()


def test_a_provider_that_does_not_read_does_not_hold_us(peer: Command) -> None:
    """What a scattered prompt's runs take is more than a socket holds."""
    runs = [(2 * i, 1) for i in range(60_000)]
    layout = Layout([Tensor(0, 64, 0, 64, 0, 0, K)], 120_000, 64 * 120_000, runs)
    own = provider(peer("Deaf"), deadline_ns=300_000_000)
    began = time.monotonic()
    with pytest.raises(PeerError, match="the provider does not read what it is sent"):
        own.tensors(Slot.REGION, layout, (1, 1))
    own.close()
    assert time.monotonic() - began < 4.0


def test_a_deadline_beyond_poll_is_a_deadline() -> None:
    own = provider((str(helper("zcopy-provider")),), deadline_ns=10**9 * 86_400 * 365)
    own.close()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/nonexistent/provider",), r"cannot start the provider /nonexistent/provider: No such file .*"),
        (("/",), r"cannot start the provider /: Permission denied .*"),
        (("true",), r"the provider is gone \(exit code 0\)"),
        (
            (sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 64)"),
            r".* \(killed by (signal 64|SIGRTMAX)\)",
        ),
    ],
)
def test_no_provider_at_all(command: tuple[str, ...], reason: str, measure: Measure) -> None:
    for row in measure(command):
        assert_failed(row, reason)
