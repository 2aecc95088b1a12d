"""Route `shared`: the provider writes the decoder's region in place, the decoder adopts the cells. 0 bytes move."""

from __future__ import annotations

import os
from contextlib import suppress

from zcopy.errors import MeasurementError, RefusedError
from zcopy.native import wire
from zcopy.native.calls import NativeError, refused
from zcopy.native.provider import Handoff, Provider
from zcopy.native.region import Region
from zcopy.probes.handoff.arm import Arm
from zcopy.probes.handoff.evidence import Meter, Moved, SharedProof
from zcopy.probes.handoff.params import Variant
from zcopy.probes.handoff.stage import Bench, Stage


class SharedArm(Arm):
    """What the reused and the fresh region have in common: getting one to a provider, and one request in it."""

    def __init__(self, bench: Bench, stage: Stage, variant: Variant) -> None:
        super().__init__(bench, stage, variant)
        self._provider: Provider | None = None
        self._region: Region | None = None
        self._proof: SharedProof | None = None

    def refuse_beforehand(self) -> None:
        """What must not be tried: in-place rows that a rotated cache would misread, memory without a descriptor."""
        if unstated := self.bench.params.cache.unstated_rotation():
            raise RefusedError(unstated)
        if not self.stage.kind.capabilities.exportable:
            raise RefusedError(
                f"{self.variant.buffer} has no descriptor to export: the request takes the file route"
            )

    def set_up(self) -> None:
        """Allocates, populates, hands over and maps a region; notes export, populate, pass and map."""
        started = self.bench.ticks()
        region = self._region = self.stage.allocate()
        exported = self.bench.ticks()
        self.stage.know(region)
        began = self.bench.ticks()
        self._populate(region)
        populated = self.bench.ticks()
        provider, inherited = self._reach(region)
        sent, mapped = provider.map(wire.Slot.REGION, region.export(), inherited=inherited)
        passed = mapped.received_ns - (populated if inherited else sent)
        self.note(export=exported - started, pass_=max(0, passed), map=mapped.map_ns)
        if self.variant.populate != "none":
            self.note(populate=populated - began)

    def note(self, **phases: int) -> None:
        super().note(**{phase.rstrip("_"): value for phase, value in phases.items()})

    def _populate(self, region: Region) -> None:
        if self.variant.populate == "none":
            return
        try:
            region.populate()
        except NativeError as error:
            raise refused(f"populating {self.variant.buffer}", error) from error

    def _reach(self, region: Region) -> tuple[Provider, bool]:
        """The provider that gets the region: over the socket one serves them all, by inheritance each its own."""
        inherited = self.variant.passing == "inherit"
        if inherited or self._provider is None:
            self._part()
            self._provider = self.met(self.bench.provider((region.fd,) if inherited else ()))
            self._provider.tensors(wire.Slot.REGION, self.stage.layout, self.bench.params.cache.numbers)
            self._proof = SharedProof(os.getpid(), self._provider.pid, self.stage.layout.payload)
        return self._provider, inherited

    def _part(self) -> None:
        if self._provider is not None:
            self._provider.close()
            self._provider = None

    def request(self, nonce: int, flags: wire.BeginFlag = wire.PLAIN) -> Handoff:
        """The provider writes and the decoder adopts; the cells are free again afterwards."""
        assert self._provider is not None
        asked = self.bench.request(wire.Op.WRITE, nonce, inject=self.bench.params.fault, flags=flags)
        number = self._provider.begin(asked)
        handoff = self._provider.take_over(number, self.stage.table, self.stage.adoption)
        self.stage.forget()
        self.account(handoff.done)
        return handoff

    def first_request(self, nonce: int) -> Handoff:
        """The request that meets the pages for the first time, with its faults."""
        prefault = self.variant.populate == "prefault"
        handoff = self.request(nonce, wire.BeginFlag.PREREAD if prefault else wire.PLAIN)
        done = handoff.done
        self.note(first_write=done.ns)
        if prefault:
            self.note(prefault=done.preread_ns)
        samples = self.extra.setdefault("faults_samples", [])
        assert isinstance(samples, list)
        samples.append(done.faults + done.preread_faults)
        self.extra["faults"] = sorted(samples)[(len(samples) - 1) // 2]
        return handoff

    def sync(self) -> int:
        """What opening the rows to the CPU costs on a dma-buf, in ns; 0 elsewhere."""
        assert self._region is not None
        took = self._region.begin()
        self._region.end()
        if self._region.dmabuf:
            self.note(sync=took)
        return took

    def label(self) -> None:
        """Asks the kernel what the region is, once."""
        assert self._region is not None
        if "proof" not in self.extra:
            self.extra["proof"] = dict(self.stage.kind.proof(self._region))

    def claim_zero(self, moved: Moved | None) -> None:
        """0 bytes copied is claimed only where the kernel saw nothing move; else the arm fails."""
        assert self._region is not None and self._proof is not None
        fault = self._proof.fault(self._region.address, frozenset(self.bench.inodes))
        if moved is not None:
            self.extra["proc_io_bytes"] = moved.total
            if moved.total >= min(self.stage.layout.payload, 4096):
                fault = f"{moved.total} bytes went through system calls"
        if fault:
            raise MeasurementError(f"0 bytes copied cannot be claimed: {fault}")

    def meter(self) -> Meter:
        assert self._provider is not None
        meter = Meter(os.getpid(), self._provider.pid)
        meter.start()
        return meter

    def close(self) -> None:
        with suppress(NativeError):
            self._part()
        self._give_back()

    def _give_back(self) -> None:
        if self._region is not None:
            self.stage.release(self._region)


class ReusedArm(SharedArm):
    """The region is made once and serves every request: what a serving decoder does."""

    _seed = 0
    _lent = False  # the region is the stage's: it outlives this arm

    def prepare(self) -> None:
        self.refuse_beforehand()
        self.set_up()
        self.label()
        assert self._region is not None
        nonce = self.bench.nonce()
        handoff = self.first_request(nonce)
        self.require(self.stage.verify(self._region, nonce, 0))
        self.claim(handoff.done, self.stage.layout.payload)
        if self.stage.give_target(self._region):
            self._lent = True
            self._seed = self.stage.target_seed
        else:
            self._seed = self.bench.nonce()
            self.stage.guard(self._region, self._seed)

    def sample(self) -> None:
        assert self._region is not None
        self.request(self.bench.nonce())
        nonce = self.bench.nonce()
        meter = self.meter()
        handoff = self.request(nonce)
        moved = meter.stop()
        sync = self.sync()
        self.require(self.stage.verify(self._region, nonce, self._seed))
        self.claim(handoff.done, self.stage.layout.payload)
        self.claim_zero(moved)
        self.note(write=handoff.done.ns, wake=handoff.wake_ns, adopt=handoff.adopt_ns, ready=handoff.ready_ns)
        self.note(total=handoff.ready_ns + sync)

    def _give_back(self) -> None:
        if not self._lent:
            super()._give_back()


class FreshArm(SharedArm):
    """A new region for each request: all that a reused one pays once is paid every time."""

    def prepare(self) -> None:
        """One whole untimed request: memory that the box has not used for a while costs many times more."""
        self.refuse_beforehand()
        self._request()
        self.ns.clear()
        self.extra.pop("faults_samples", None)

    def sample(self) -> None:
        self._request()

    def _request(self) -> None:
        self.set_up()
        self.label()
        assert self._region is not None
        nonce = self.bench.nonce()
        meter = self.meter()
        first = self.first_request(nonce)
        moved = meter.stop()
        sync = self.sync()
        self.require(self.stage.verify(self._region, nonce, 0))
        self.claim(first.done, self.stage.layout.payload)
        self.claim_zero(moved)
        warm = self.request(nonce)
        self.note(write=warm.done.ns, wake=first.wake_ns, adopt=first.adopt_ns, ready=first.ready_ns)
        self.note(total=self._paid(first, warm) + sync)
        self._drop()

    def _paid(self, first: Handoff, warm: Handoff) -> int:
        """Export, populate, pass, map, what the first write cost above a warm one, and ready."""
        once = sum(self.ns[phase][-1] for phase in ("export", "populate", "pass", "map") if phase in self.ns)
        cold = first.done.preread_ns + first.done.ns - warm.done.ns
        return once + max(0, cold) + first.ready_ns

    def _drop(self) -> None:
        assert self._region is not None and self._provider is not None
        self._provider.drop(wire.Slot.REGION)
        self.stage.release(self._region)
