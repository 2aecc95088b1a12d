"""The probe: sizes one after another, their cases interleaved in an order drawn anew each round."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from random import Random
from typing import Final

from zcopy.buffers import registry
from zcopy.buffers.base import Buffer
from zcopy.errors import ZcopyError
from zcopy.host import Host
from zcopy.model import Json, Outcome, Row, Warning_
from zcopy.native.calls import NativeError
from zcopy.probes.base import Context, Plan, Probe
from zcopy.probes.fill import caching
from zcopy.probes.fill.arm import FillArm
from zcopy.probes.fill.derived import against_base, whole_buffer_flushes
from zcopy.probes.fill.params import BASE_BUFFER, Case, FillParams, cases, ways
from zcopy.probes.fill.stage import Sources, Target, close_target, make_target
from zcopy.units import gbps, size_text

_PLAN_NS_PER_BYTE: Final = 0.5  # per fill, verification included: an order of magnitude for --plan


class FillProbe(Probe):
    command = "fill"

    def __init__(self, params: FillParams, named: Sequence[tuple[str, str]] = ()) -> None:
        """`named`: what the user asked for by name, as (case key, value); see `Probe.named`."""
        self._params = params
        self._named = tuple(named)
        self._open: list[FillArm] = []
        self._absent: list[Row] = []

    def params(self) -> Mapping[str, Json]:
        return self._params.document()

    def named(self) -> Sequence[tuple[str, str]]:
        return self._named

    def devices(self, host: Host) -> tuple[str, ...]:
        """The CPU, and what is behind the buffers."""
        return registry.devices(self._params.buffers, host)

    def drivers(self, host: Host) -> tuple[str, ...]:
        return registry.drivers(self._params.buffers, host)

    def plan(self, host: Host) -> Plan:
        every: list[Case] = []
        memory = 0
        for size in self._params.sizes:
            places = [(kind, populate) for kind, populate, why in self._places(host, size) if why is None]
            every += [case for kind, populate in places for case in self._cases(kind, populate, size)]
            memory = max(memory, 2 * size + sum(kind.room(size) for kind, _ in places))
        moved = sum(case.size * self._params.reps * 2 for case in every)
        return Plan(tuple(case.document(None) for case in every), memory, 0, int(moved * _PLAN_NS_PER_BYTE))

    def measure(self, context: Context) -> Generator[Row, None, None]:
        random = Random(self._params.seed)
        steps = len(self._params.sizes) * (self._params.reps + 1)
        for number, size in enumerate(self._params.sizes):
            yield from self._measure_size(context, random, size, (number * (self._params.reps + 1), steps))

    def partial(self) -> Sequence[Row]:
        return (
            *against_base([arm.row() for arm in self._open if arm.outcome or "total" in arm.ns]),
            *self._absent,
        )

    def _places(self, host: Host, size: int) -> Iterator[tuple[Buffer, str, str | None]]:
        """Every kind that is asked for, and ordinary memory to hold them against, with each way its pages come in, and
        why it is not measured.
        """
        left, limit = host.room()
        left -= 2 * size
        for name in dict.fromkeys((BASE_BUFFER, *self._params.buffers)):
            kind = registry.find(name, host)
            lack = kind.unavailable(host)
            own = kind.limit(host)
            need = kind.room(size)
            for populate in ways(self._params, name, kind.capabilities.populates):
                why = lack or _too_large(kind, need, own, left, limit)
                if why is None:
                    left -= need
                    own = (own[0] - need, own[1]) if own else None
                yield kind, populate, why

    def _cases(self, kind: Buffer, populate: str, size: int) -> list[Case]:
        found = cases(self._params, kind.name, populate, size, kind.capabilities.dmabuf)
        return list(dict.fromkeys(found))

    def _measure_size(
        self, context: Context, random: Random, size: int, steps: tuple[int, int]
    ) -> Iterator[Row]:
        with ExitStack() as cleanup:
            sources = None
            for kind, populate, why in self._places(context.host, size):
                target = None
                if why is None:
                    if sources is None:
                        sources = Sources(size, self._params.seed)
                        cleanup.callback(sources.close)
                    target, why = self._made(kind, populate, size, context)
                if target is None or sources is None:
                    if self._cases(kind, populate, size):
                        self._absent.append(self._absent_row(kind, populate, size, why or ""))
                    continue
                cleanup.callback(close_target, target)
                self._open += [
                    FillArm(case, target, sources, self._params.isa, self._params.cpus)
                    for case in self._cases(kind, populate, size)
                ]
            self._rounds(context, random, size, steps)
            if sources is not None:
                self._classify(context, sources, size)
            rows = (*against_base([arm.row() for arm in self._open]), *self._absent)
            self._open, self._absent = [], []
        for warning in whole_buffer_flushes(rows):
            context.warn(warning)
        yield from rows

    def _made(
        self, kind: Buffer, populate: str, size: int, context: Context
    ) -> tuple[Target | None, str | None]:
        try:
            return make_target(kind, populate, size, context.host, context.ticks), None
        except ZcopyError as error:
            return None, error.message
        except NativeError as error:
            return None, f"{kind.name}: {error.strerror}"

    def _rounds(self, context: Context, random: Random, size: int, steps: tuple[int, int]) -> None:
        at, total = steps
        for arm in self._open:
            context.progress(f"{size_text(size)}: preparing {arm.case.buffer} {arm.case.method}", at, total)
            arm.run("prepare")
        for rep in range(self._params.reps):
            order = [arm for arm in self._open if arm.outcome is None]
            random.shuffle(order)
            for arm in order:
                what = f"{size_text(size)}: round {rep + 1}, {arm.case.buffer} {arm.case.method}"
                context.progress(what, at + 1 + rep, total)
                arm.run("sample")

    def _classify(self, context: Context, sources: Sources, size: int) -> None:
        """How each kind's mapping reads and writes, against ordinary memory's in the same run."""
        targets = {id(arm.target): arm.target for arm in self._open if arm.outcome is None}
        for target in targets.values():
            with suppress(NativeError):  # a sync that was refused: then nothing is said of it
                target.rates = caching.rates(target.region, sources.regions[0], size)
        found = [(target, target.rates) for target in targets.values() if target.rates is not None]
        ordinary = next((rates for target, rates in found if target.kind.name == BASE_BUFFER), None)
        for target, rates in found:
            if ordinary is not None:
                self._say(context, target, rates, caching.classify(rates, ordinary))

    def _say(self, context: Context, target: Target, rates: caching.Rates, measured: str) -> None:
        """Puts what was found of a buffer into its rows, beside what its driver says of it."""
        kind, declared = target.kind, target.declared
        device = kind.capabilities.dmabuf
        found = caching.observed(measured, device=device, virtual=context.host.machine.virtual)
        if text := caching.contradiction(kind.name, found, declared):
            context.warn(Warning_("caching", text))
        for arm in self._open:
            if arm.target is target and arm.outcome is None:
                arm.extra.update(
                    caching=found, declared_caching=declared,
                    read_gbps=gbps(rates.size, rates.read_ns), write_gbps=gbps(rates.size, rates.write_ns),
                )  # fmt: skip

    def _absent_row(self, kind: Buffer, populate: str, size: int, why: str) -> Row:
        """One for all the ways to fill what is not there."""
        case: dict[str, Json] = {"buffer": kind.name, "size": size, "source": "ram"}
        if populate != "none":
            case["populate"] = populate
        return Row(case=case, outcome=Outcome.SKIPPED, reason=why, bytes=size)


def _too_large(kind: Buffer, need: int, own: tuple[int, str] | None, left: int, limit: str) -> str | None:
    """Why `need` bytes of a kind are not to be had: its own limit, or the memory that is left."""
    if own and need > own[0]:
        return f"needs {size_text(need)} of {kind.name}: {own[1]} ({size_text(max(0, own[0]))})"
    if need > left:
        return f"needs {size_text(need)} more memory, {size_text(max(0, left))} are left ({limit})"
    return None
