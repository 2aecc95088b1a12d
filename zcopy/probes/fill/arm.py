"""One case under measurement, with its samples so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcopy.buffers.strict import refuse_strict
from zcopy.errors import MeasurementError, RefusedError, ZcopyError
from zcopy.model import Json, Outcome, Row
from zcopy.native.calls import sentence
from zcopy.native.fill import Mover, Team, fill, find_mover
from zcopy.native.region import Region
from zcopy.probes.fill.params import Case
from zcopy.probes.fill.stage import Sources, Target, wrong_byte
from zcopy.probes.fill.sync import POLICIES, Spent, close, flushing, take
from zcopy.stats import median

CANDIDATES: Final = ("memcpy", "nt", "movsb")
_TRIALS: Final = 5
_SEEN_BY_CLOCK: Final = 1 << 20  # bytes: what is smaller is filled several times in one sample


class FillArm:
    """`prepare` once, then `sample` in each round; a fault ends the arm, never the run."""

    def __init__(self, case: Case, target: Target, sources: Sources, isa: str, cpus: Sequence[int]) -> None:
        self.case, self.target, self.sources = case, target, sources
        self._isa = isa
        self._span = case.span
        repeat = max(1, _SEEN_BY_CLOCK // self._span.size)
        self._team = Team(case.threads, tuple(cpus[: case.threads]), repeat)
        self._mover: Mover | None = None
        self._turn = 0
        self.ns: dict[str, list[int]] = {}
        self.extra: dict[str, Json] = {}
        self.outcome: Outcome | None = None
        self.reason: str | None = None
        self.verified = False

    def prepare(self) -> None:
        """Finds the way to fill; `auto` tries them all in turn and takes the fastest here, for this size."""
        refuse_strict(self.target.kind)
        if POLICIES[self.case.sync].by_line:
            self.extra["flusher"] = flushing(self.target.declared)
        if self.case.method != "auto":
            self._mover = self._find(self.case.method)
        else:
            self._mover = self._fastest()
        self.extra["mover"] = self._mover.name
        self.extra["repeat"] = self._team.repeat

    def _find(self, method: str) -> Mover:
        try:
            return find_mover(method, self._isa if method == "nt" else "")
        except ValueError as error:
            raise RefusedError(str(error)) from error

    def _fastest(self) -> Mover:
        ways = [mover for method in CANDIDATES if (mover := self._there(method)) is not None]
        tried: dict[Mover, list[int]] = {mover: [] for mover in ways}
        for _ in range(_TRIALS):
            for mover in ways:
                self._fill(mover)
                tried[mover].append(self._fill(mover))
        return min(ways, key=lambda mover: median(tried[mover]))

    def _there(self, method: str) -> Mover | None:
        try:
            return find_mover(method)
        except ValueError:
            return None

    def _fill(self, mover: Mover) -> int:
        return fill(self.target.region, self._source(), self._span, mover, self._team)

    def _source(self) -> Region:
        """One source and the other in turn."""
        self._turn += 1
        return self.sources.regions[self._turn % 2]

    def sample(self) -> None:
        """An untimed fill with its syncs, then a timed one, verified through the other mapping.

        Each sample begins with the other source than the last one, so that neither the untimed fill's bytes nor
        those of the last sample are what is looked for.
        """
        assert self._mover is not None
        self._turn += 1
        self._once(self._mover)
        source, ns, spent = self._once(self._mover)
        at = wrong_byte(self.target, source, self._span, self.case.constant)
        if at is not None:
            raise MeasurementError(f"byte {at} of {self.case.size} is not what was filled in")
        self.verified = True
        each = ns // self._team.repeat
        self.note(fill=each, total=each + spent.sync)
        if self.case.sync != "none":
            self.note(sync=spent.sync, **({"fence": spent.fence} if self.target.region.dmabuf else {}))

    def _once(self, mover: Mover) -> tuple[Region, int, Spent]:
        policy, region = POLICIES[self.case.sync], self.target.region
        source = self._source()
        opened = take(region, policy.before, self._span)
        ns = fill(region, source, self._span, mover, self._team)
        return source, ns, opened.plus(close(region, policy, self._span))

    def note(self, **phases: int) -> None:
        """Adds a sample to each phase, in ns."""
        for phase, value in phases.items():
            self.ns.setdefault(phase, []).append(value)

    def run(self, step: str) -> None:
        """`prepare` or `sample`, with every fault turned into the arm's outcome."""
        try:
            getattr(self, step)()
        except ZcopyError as error:
            self.outcome = Outcome.REFUSED if isinstance(error, RefusedError) else Outcome.FAILED
            self.reason = error.message
        except OSError as error:
            self.outcome, self.reason = Outcome.FAILED, sentence(f"{self.case.buffer}: {step}", error)

    def row(self) -> Row:
        """What the arm has to say, complete or not."""
        outcome = self.outcome or (Outcome.OK if "total" in self.ns else Outcome.SKIPPED)
        ok = outcome is Outcome.OK
        target = self.target
        once = target.once() if ok else {}
        return Row(
            case=self.case.document(self._isa or None),
            outcome=outcome,
            reason=self.reason or (None if ok else "stopped before the first sample"),
            bytes=self._span.size,
            bytes_copied=self._span.size if ok and not self.case.constant else 0,
            verified=(self.verified and ok) if outcome in (Outcome.OK, Outcome.FAILED) else None,
            ns={**once, **{phase: tuple(samples) for phase, samples in self.ns.items()}},
            rate_phase="fill",
            rate_of="bytes",
            extra={**self.extra, "faults": target.faults, "proof": target.proof} if ok else self.extra,
        )
