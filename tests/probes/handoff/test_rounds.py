"""Rounds: all that were asked for, or fewer on a box where they take too long, and then said so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.probes.handoff.conftest import Run
from zcopy.probes.handoff.rounds import Rounds

S = 10**9
Handoff = Callable[..., Run]


class Clock:
    """A box on which each round takes the next of these times."""

    def __init__(self, *takes: int) -> None:
        self.now, self.takes = 0, takes

    def __call__(self) -> int:
        return self.now

    def run(self, rounds: Rounds) -> int:
        done = 0
        for rep in rounds:
            assert rep == done
            self.now += self.takes[rep]
            done += 1
        return done


@pytest.mark.parametrize(
    "takes, until, done",
    [
        ((10, 10, 10, 10, 10), None, 5),
        ((10, 10, 10, 10, 10), 50, 5),
        ((10, 10, 10, 10, 10), 49, 4),  # the fifth would end at 50
        ((10, 10, 10, 10, 10), 39, 3),
        ((10, 10, 10, 10, 10), 0, 3),  # never fewer: a length that begins late has its three, too
        ((10, 19, 10, 1, 1), 57, 3),  # a round may take as long as the slowest one did
        ((10, 19, 10, 1, 1), 59, 5),
    ],
)
def test_rounds(takes: tuple[int, ...], until: int | None, done: int) -> None:
    clock = Clock(*(each * S for each in takes))
    assert clock.run(Rounds(5, None if until is None else until * S, clock)) == done


def test_one_repetition_is_one() -> None:
    clock = Clock(S)
    assert clock.run(Rounds(1, 0, clock)) == 1


def test_a_run_that_takes_too_long_has_three_samples_and_says_so(handoff: Handoff) -> None:
    ran = handoff(reps=5, patience_ns=0)
    assert {len(row.ns["total"]) for row in ran.rows} == {3}
    assert all(row.verified for row in ran.rows)
    (warning,) = [each for each in ran.warnings if each.code == "fewer-reps"]
    assert warning.text.startswith("37 cells: 3 of 5 rounds") and "--reps 5" in warning.text


@pytest.mark.parametrize("patience", [None, 3600 * S])
def test_a_run_with_time_has_them_all(patience: int | None, handoff: Handoff) -> None:
    ran = handoff(reps=5, patience_ns=patience)
    assert {len(row.ns["total"]) for row in ran.rows} == {5}
    assert "fewer-reps" not in [each.code for each in ran.warnings]
