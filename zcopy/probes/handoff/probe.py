"""The probe: lengths one after another, their variants interleaved in an order drawn anew each round."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from zcopy.buffers import registry
from zcopy.buffers.anon import Anon
from zcopy.buffers.base import Buffer
from zcopy.buffers.strict import strict_here
from zcopy.host import Host
from zcopy.host.mounts import filesystem
from zcopy.model import Json, Outcome, Row, Warning_
from zcopy.native.calls import ExhaustedError
from zcopy.native.listener import Listener
from zcopy.probes.base import Context, Plan, Probe
from zcopy.probes.handoff.advice import advise, fewer, misread_switch, uncounted
from zcopy.probes.handoff.arm import Arm
from zcopy.probes.handoff.derived import finished
from zcopy.probes.handoff.evidence import Io
from zcopy.probes.handoff.moved import CopyArm, FileArm, PipeArm
from zcopy.probes.handoff.params import HandoffParams, Length, Variant, variants
from zcopy.probes.handoff.room import Needs, Room, Sizes, needs
from zcopy.probes.handoff.rounds import Rounds
from zcopy.probes.handoff.shared import FreshArm, ReusedArm
from zcopy.probes.handoff.stage import Bench, Stage

_ARMS: Mapping[tuple[str, str], type[Arm]] = {
    ("shared", "reused"): ReusedArm,
    ("shared", "fresh"): FreshArm,
    ("file", "reused"): FileArm,
    ("file", "fresh"): FileArm,
    ("copy", "reused"): CopyArm,
    ("pipe", "reused"): PipeArm,
}
_MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")
_PLAN_NS_PER_BYTE = 1.0  # of payload, per sample: an order of magnitude for --plan and nothing else


@dataclass(frozen=True, slots=True)
class Absent:
    """A variant that is not measured, and why."""

    variant: Variant
    outcome: Outcome
    reason: str


def _lack(kind: Buffer, host: Host) -> tuple[Outcome, str] | None:
    """Why the kind is not measured: this box does not have it, or this process could not even try it."""
    try:
        why = kind.unavailable(host)
    except ExhaustedError as error:
        return Outcome.FAILED, error.message
    if why:
        return Outcome.SKIPPED, why
    return (Outcome.REFUSED, strict) if (strict := strict_here(kind)) else None


class HandoffProbe(Probe):
    command = "handoff"

    def __init__(self, params: HandoffParams, named: Sequence[tuple[str, str]] = ()) -> None:
        """`named`: what the user asked for by name, as (case key, value); see `Probe.named`."""
        self._params = params
        self._named = tuple(named)
        self._open: list[Arm] = []  # of the length under way
        self._absent: list[Row] = []  # its variants that are not measured
        self._complete: deque[Row] = deque()  # rows of a length that is over, not yet handed out
        self._until_ns: int | None = None  # when the run's patience ends

    def params(self) -> Mapping[str, Json]:
        return self._params.document()

    def named(self) -> Sequence[tuple[str, str]]:
        return self._named

    def devices(self, host: Host) -> tuple[str, ...]:
        """The CPU, and what is behind the buffers."""
        return registry.devices(self._params.buffers, host)

    def drivers(self, host: Host) -> tuple[str, ...]:
        """The modules behind the buffers of this run."""
        return registry.drivers(self._params.buffers, host)

    def plan(self, host: Host) -> Plan:
        cases: list[Mapping[str, Json]] = []
        memory, disk, moved = 0, 0, 0
        for length in self._params.lengths:
            room = Room(host)
            sizes = Sizes.of(self._params, length)
            for variant, _kind, absent in self._admitted(host, length, room):
                cases.append(variant.case(self._params, length))
                moved += 0 if absent else sizes.payload * (self._params.reps * 2 + 1)
            memory, disk = max(memory, room.memory), max(disk, room.disk)
        return Plan(tuple(cases), memory, disk, int(moved * _PLAN_NS_PER_BYTE))

    def measure(self, context: Context) -> Generator[Row, None, None]:
        if self._params.patience_ns is not None:
            self._until_ns = context.ticks() + self._params.patience_ns
        bench_random = Random(self._params.seed)
        place = self._params.listen
        with Listener(Path(place)) if place else nullcontext() as listener:
            bench = Bench(self._params, context.ticks, context.environ, bench_random, listener)
            yield from self._measure_all(context, bench)

    def _measure_all(self, context: Context, bench: Bench) -> Iterator[Row]:
        self._warn_nothing_exports(context)
        for warning in (misread_switch(context.environ), uncounted(Io.of(os.getpid()))):
            if warning:
                context.warn(warning)
        steps = len(self._params.lengths) * (self._params.reps + 1)
        for number, length in enumerate(self._params.lengths):
            yield from self._measure_length(context, bench, length, (number * (self._params.reps + 1), steps))

    def partial(self) -> Sequence[Row]:
        under_way = finished([arm.row() for arm in self._open if arm.begun])
        return (*self._complete, *under_way, *self._absent)

    # What a probe of the same routes with something else at their ends does in its own way.

    def variants(self, name: str, kind: Buffer) -> Iterator[Variant]:
        """Every variant with this kind of memory."""
        return variants(self._params, name, kind.capabilities.populates)

    def needs(self, variant: Variant, sizes: Sizes, first_cache: bool, on_memory: bool) -> Needs:
        """What the variant takes of the box: see `room.needs`."""
        return needs(variant, sizes, first_cache, on_memory)

    def stage(self, bench: Bench, kind: Buffer, length: Length) -> Stage:
        """What the variants of one length in one kind of memory share."""
        return Stage(bench, kind, length)

    def arm(self, bench: Bench, stage: Stage, variant: Variant) -> Arm:
        """What measures the variant."""
        return _ARMS[variant.route, variant.region](bench, stage, variant)

    def _warn_nothing_exports(self, context: Context) -> None:
        kinds = [kind for kind in registry.kinds(context.host) if kind.capabilities.exportable]
        if all((lack := _lack(kind, context.host)) and lack[0] is Outcome.SKIPPED for kind in kinds):
            text = "no kind of memory can be exported here: every request takes the file route (zcopy doctor)"
            context.warn(Warning_("no-export", text))

    def _measure_length(
        self, context: Context, bench: Bench, length: Length, steps: tuple[int, int]
    ) -> Iterator[Row]:
        with ExitStack() as cleanup:
            stages: dict[str, Stage] = {}
            for variant, kind, why in self._admitted(context.host, length, Room(context.host)):
                if why is not None:
                    self._absent.append(self._absent_row(why, length))
                    continue
                if kind.name not in stages:
                    stages[kind.name] = self.stage(bench, kind, length)
                    cleanup.callback(stages[kind.name].close)
                arm = self.arm(bench, stages[kind.name], variant)
                cleanup.callback(arm.close)
                self._open.append(arm)
            self._rounds(context, bench, length, steps)
        for warning in advise(self._close_length()):
            context.warn(warning)
        while self._complete:
            yield self._complete.popleft()

    def _close_length(self) -> Sequence[Row]:
        """The rows of the length under way, complete: a signal from here on finds them so."""
        rows = (*finished([arm.row() for arm in self._open]), *self._absent)
        self._complete, self._open, self._absent = deque(rows), [], []
        return rows

    def _rounds(self, context: Context, bench: Bench, length: Length, steps: tuple[int, int]) -> None:
        """Prepares every arm, then samples them all in each round."""
        at, total = steps
        what = f"{length.cells} cells"
        for arm in self._open:
            context.progress(f"{what}: preparing {arm.variant.route} ({arm.variant.region})", at, total)
            arm.run("prepare")
        done = 0
        for rep in Rounds(self._params.reps, self._until_ns, context.ticks):
            order = [arm for arm in self._open if arm.outcome is None]
            bench.random.shuffle(order)
            for arm in order:
                context.progress(f"{what}: round {rep + 1}, {arm.variant.route}", at + 1 + rep, total)
                arm.run("sample")
            done = rep + 1
        if done < self._params.reps:
            context.warn(fewer(what, done, self._params.reps))

    def _admitted(
        self, host: Host, length: Length, room: Room
    ) -> Iterator[tuple[Variant, Buffer, Absent | None]]:
        """Every variant with its kind of memory, and why it is not measured (None: it is)."""
        sizes = Sizes.of(self._params, length)
        served: set[str] = set()  # routes beside `shared` that some kind of memory serves
        stranded: list[Variant] = []
        for name in self._params.buffers:
            kind = registry.find(name, host)
            lack = _lack(kind, host)
            first_cache = True
            for variant in self.variants(name, kind):
                absent = (
                    Absent(variant, *lack)
                    if lack
                    else self._fit(host, variant, kind, sizes, room, first_cache)
                )
                if variant.route == "shared":
                    first_cache = first_cache and not (variant.region == "reused" and absent is None)
                    yield variant, kind, absent
                elif absent is None:
                    served.add(variant.route)
                    yield variant, kind, None
                elif lack:
                    stranded.append(variant)
                else:
                    yield variant, kind, absent
        yield from self._fall_back(host, stranded, served, sizes, room)

    def _fall_back(
        self, host: Host, stranded: Sequence[Variant], served: set[str], sizes: Sizes, room: Room
    ) -> Iterator[tuple[Variant, Buffer, Absent | None]]:
        """A decoder that cannot have the asked memory still takes the other routes, into ordinary memory."""
        kind = Anon()
        for variant in dict.fromkeys(replace(each, buffer=kind.name) for each in stranded):
            if variant.route not in served:
                yield variant, kind, self._fit(host, variant, kind, sizes, room, True)

    def _fit(
        self, host: Host, variant: Variant, kind: Buffer, sizes: Sizes, room: Room, first_cache: bool
    ) -> Absent | None:
        on_memory = (
            bool(variant.state_dir) and filesystem(Path(variant.state_dir or "")) in _MEMORY_FILESYSTEMS
        )
        need = self.needs(variant, sizes, first_cache, on_memory)
        lack = room.lack(variant, need, kind, host, kind.room(sizes.region))
        return Absent(variant, Outcome.SKIPPED, lack) if lack else None

    def _absent_row(self, absent: Absent, length: Length) -> Row:
        case = absent.variant.case(self._params, length)
        return Row(case=case, outcome=absent.outcome, reason=absent.reason)
