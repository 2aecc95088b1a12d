"""A run that is stopped keeps the samples it has, and gives everything back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from zcopy.errors import Exit, Stopped
from zcopy.model import Outcome, Row
from zcopy.probes.base import Context
from zcopy.probes.handoff.params import ROUTES, Length
from zcopy.probes.handoff.probe import HandoffProbe

pytestmark = pytest.mark.usefixtures("nothing_left")

Start = Callable[..., HandoffProbe]
NewContext = Callable[..., Context]


def stop_at(step: int) -> Callable[[str, int, int], None]:
    """Progress that ends the run at its so-many-th call."""
    calls = iter(range(step + 1))

    def progress(_what: str, _done: int, _total: int) -> None:
        if next(calls) == step:
            raise Stopped(Exit.INTERRUPTED)

    return progress


def stopped(probe: HandoffProbe, context: Context) -> list[Row]:
    """The rows that were complete before the run was stopped."""
    rows = []
    with pytest.raises(Stopped):
        for row in probe.measure(context):
            rows.append(row)
    return rows


def test_stopped_while_preparing_there_is_nothing(start: Start, context: NewContext) -> None:
    for step in range(6):
        probe = start(routes=ROUTES)
        assert stopped(probe, context(progress=stop_at(step))) == []
        assert probe.partial() == ()


@pytest.mark.parametrize("step", [7, 9, 12, 13, 17])
def test_stopped_in_a_round_the_samples_are_kept(step: int, start: Start, context: NewContext) -> None:
    """Six arms are prepared, then each has its turn in each of five rounds."""
    probe = start(routes=ROUTES, reps=5)
    assert stopped(probe, context(progress=stop_at(step))) == []
    rows = probe.partial()
    assert sum(len(row.ns["total"]) for row in rows) == step - 6
    for row in rows:
        assert (row.outcome, row.verified, row.reason) == (Outcome.OK, True, None)
        assert row.extra["ns_per_cell"] is not None


def test_what_ended_before_the_stop_is_kept_with_its_reason(start: Start, context: NewContext) -> None:
    """A refused arm (memory without a descriptor), one with samples, and one that was never to be measured."""
    probe = start(
        routes=("shared", "file"), buffers=("anon", "dma-heap:nowhere"), regions=("reused",), reps=5
    )
    assert stopped(probe, context(progress=stop_at(4))) == []
    assert [(row.case["route"], row.case["buffer"], row.outcome) for row in probe.partial()] == [
        ("shared", "anon", Outcome.REFUSED),
        ("file", "anon", Outcome.OK),
        ("shared", "dma-heap:nowhere", Outcome.SKIPPED),
    ]
    assert all(row.reason for row in probe.partial() if row.outcome is not Outcome.OK)


def test_rows_that_are_complete_when_the_stop_comes_are_kept(start: Start, context: NewContext) -> None:
    """Stopped between two rows of one length: none is lost, and none comes twice."""
    probe = start(routes=ROUTES)
    measuring = probe.measure(context())
    first = next(measuring)
    rows = [first, *probe.partial()]
    assert [row.case["route"] for row in rows] == ["shared", "shared", "file", "file", "copy", "pipe"]
    assert len({row.case["region"] + str(row.case["route"]) for row in rows}) == len(rows)


def test_lengths_that_were_complete_are_rows_and_not_partial(start: Start, context: NewContext) -> None:
    probe = start(routes=("shared",), lengths=(Length(5, 64), Length(9, 64)), reps=2)
    # Two arms: 2 to prepare and 4 samples for the first length, 2 and 1 for the second.
    rows = stopped(probe, context(progress=stop_at(9)))
    assert [row.case["cells"] for row in rows] == [5, 5]
    assert [row.case["cells"] for row in probe.partial()] == [9]


def test_the_consumer_may_stop_too(start: Start, context: NewContext) -> None:
    """What an output that cannot be written does to the run."""
    measuring = start(routes=ROUTES).measure(context())
    assert next(iter(measuring)).outcome is Outcome.OK
    measuring.close()


def test_progress_reaches_its_total(start: Start, context: NewContext) -> None:
    told: list[tuple[str, int, int]] = []
    probe = start(routes=ROUTES, lengths=(Length(5, 64), Length(9, 64)), reps=3)
    rows = list(probe.measure(context(progress=lambda *step: told.append(step))))
    assert len(rows) == 12
    assert {total for _, _, total in told} == {8}
    done = [step for _, step, _ in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 7)
    assert "5 cells: preparing shared (reused)" in {what for what, _, _ in told}


def test_rounds_are_interleaved_in_a_drawn_order(start: Start, context: NewContext) -> None:
    """Every variant once a round, not always in the same order, the same order for the same seed."""

    def orders(seed: int) -> list[list[str]]:
        told: list[str] = []
        probe = start(routes=ROUTES, reps=6, seed=seed)
        list(probe.measure(context(progress=lambda what, *_: told.append(what))))
        rounds: dict[str, list[str]] = {}
        for what in told:
            if "round" in what:
                number, _, route = what.partition(", ")
                rounds.setdefault(number, []).append(route)
        return list(rounds.values())

    found = orders(3)
    assert len(found) == 6
    assert len({tuple(sorted(each)) for each in found}) == 1
    assert len({tuple(each) for each in found}) > 1
    assert orders(3) == found
    assert random.Random(3).random() != random.Random(4).random()


def test_a_fault_of_the_tool_itself_passes_through(start: Start, context: NewContext) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(start(routes=ROUTES).measure(context(progress=broken)))


def test_params_and_plan_say_what_is_measured(start: Start, context: NewContext) -> None:
    probe = start(routes=ROUTES)
    plan = probe.plan(context().host)
    rows = list(probe.measure(context()))
    assert [dict(each) for each in plan.cases] == [dict(row.case) for row in rows]
    assert probe.params()["cells"] == [37]
    assert probe.drivers(context().host) == ()
    assert HandoffProbe(probe._params, [("route", "pipe")]).named() == (("route", "pipe"),)
