"""An arm: one variant under measurement, with its samples so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from zcopy.errors import MeasurementError, RefusedError, SkippedError, ZcopyError
from zcopy.model import Json, Outcome, Row
from zcopy.native.calls import NativeError, sentence
from zcopy.native.provider import Done, Provider
from zcopy.native.rows import Difference
from zcopy.probes.handoff.params import Length, Variant
from zcopy.probes.handoff.stage import Bench, Stage

_OUTCOMES: Mapping[type[ZcopyError], Outcome] = {
    RefusedError: Outcome.REFUSED,
    SkippedError: Outcome.SKIPPED,
    MeasurementError: Outcome.FAILED,
}


class Arm(ABC):
    """`prepare` once, then `sample` in each round; a fault ends the arm, never the run."""

    rate_phase: ClassVar[str] = "total"

    def __init__(self, bench: Bench, stage: Stage, variant: Variant) -> None:
        self.bench, self.stage, self.variant = bench, stage, variant
        self.ns: dict[str, list[int]] = {}
        self.extra: dict[str, Json] = {"region_bytes": stage.region_bytes, "n_read": 0}
        self.bytes_copied = 0
        self.outcome: Outcome | None = None  # None while under way
        self.reason: str | None = None
        self.verified = False
        self._reports = 0  # of AddressSanitizer, in all requests

    @property
    def length(self) -> Length:
        return self.stage.length

    @property
    def begun(self) -> bool:
        """Whether there is anything to say: a sample, or an end."""
        return self.outcome is not None or "total" in self.ns

    @abstractmethod
    def prepare(self) -> None:
        """Takes what the arm needs and does the first, untimed or cold, request."""

    @abstractmethod
    def sample(self) -> None:
        """One repetition: an untimed request of the same kind, then a timed one, verified."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back. Idempotent, and safe on an arm that never got ready."""

    def note(self, **phases: int) -> None:
        """Adds a sample to each phase, in ns."""
        for phase, value in phases.items():
            self.ns.setdefault(phase, []).append(value)

    def account(self, done: Done) -> Done:
        """Takes note of what came with a provider's "done": every one, timed or not. Ends the arm on a report."""
        self._reports += done.reports
        if self._reports or self.bench.params.provider == "asan":
            self.extra["asan_reports"] = self._reports
        if done.reports:
            raise MeasurementError(
                f"AddressSanitizer counted {done.reports} forbidden writes by the provider"
            )
        return done

    def met(self, provider: Provider) -> Provider:
        """Takes note of who writes: another program, or another kernel of stores, is another experiment."""
        self.in_key(writer=provider.hello.name)
        if command := self.bench.params.provider_cmd:
            self.in_key(provider_cmd=list(command))
        return provider

    def in_key(self, **parts: Json) -> None:
        """Adds to the row's own part of the comparability key."""
        known = self.extra.get("key")
        self.extra["key"] = {**(known if isinstance(known, dict) else {}), **parts}

    def require(self, wrong: Difference | None) -> None:
        """Ends the arm as failed where bytes are wrong."""
        if wrong is not None:
            raise MeasurementError(str(wrong))
        self.verified = True

    def claim(self, done: Done, expected: int) -> None:
        """Ends the arm as failed where the provider's account does not come to the bytes that were asked for."""
        if done.bytes != expected:
            raise MeasurementError(
                f"the provider says that it wrote {done.bytes} bytes, the request has {expected}"
            )

    def run(self, step: str) -> None:
        """`prepare` or `sample`, with every fault turned into the arm's outcome."""
        try:
            getattr(self, step)()
        except ZcopyError as error:
            kind = next((each for each in _OUTCOMES if isinstance(error, each)), MeasurementError)
            self._end(_OUTCOMES[kind], f"{error.message} ({error.hint})" if error.hint else error.message)
        except OSError as error:
            self._end(Outcome.FAILED, sentence(f"{self.variant.route}: {step}", error))

    def _end(self, outcome: Outcome, reason: str) -> None:
        self.outcome, self.reason = outcome, reason
        self.verified = False
        self.close()
        self.stage.forget()  # where the fault came between adopting and giving the cells back
        if outcome is Outcome.FAILED:
            with suppress(NativeError):
                self.stage.mend()

    def row(self) -> Row:
        """What the arm has to say, complete or not."""
        outcome = self.outcome or (Outcome.OK if "total" in self.ns else Outcome.SKIPPED)
        measured = outcome is Outcome.OK
        return Row(
            case=self.variant.case(self.bench.params, self.length),
            outcome=outcome,
            reason=self.reason or (None if measured else "stopped before the first sample"),
            bytes=self.stage.layout.payload,
            bytes_copied=self.bytes_copied if measured else 0,
            verified=self.verified if outcome in (Outcome.OK, Outcome.FAILED) else None,
            ns={phase: tuple(samples) for phase, samples in self.ns.items()},
            rate_phase=self.rate_phase,
            extra=self.extra,
        )
