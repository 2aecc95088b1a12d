"""The two routes into a real decoder's cache, each repetition ended by the decoder going on."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zcopy.engines.llama.slots import Completion
from zcopy.errors import MeasurementError, RefusedError
from zcopy.model import Outcome, Row
from zcopy.native import wire
from zcopy.native.cells import CellTable
from zcopy.native.provider import Handoff
from zcopy.probes.handoff.arm import Arm
from zcopy.probes.handoff.evidence import Meter
from zcopy.probes.handoff.params import Variant
from zcopy.probes.handoff.stage import Bench
from zcopy.probes.llama.stage import EngineStage

_SERVERS: Final = "server"  # the case's buffer where the decoder allocates its cache itself


class EngineArm(Arm):
    """A fault ends the arm; the decoder's answer decides whether the bytes were right."""

    stage: EngineStage

    def __init__(self, bench: Bench, stage: EngineStage, variant: Variant) -> None:
        super().__init__(bench, stage, variant)
        self.extra["expected_prompt_n"] = None

    def prepare(self) -> None:
        self.stage.ready()
        self.extra["expected_prompt_n"] = self.stage.again
        self.extra["cache_kind"] = self.stage.cache_kind
        self.in_key(**self.stage.identity)
        if self.stage.prefill_ns is not None:
            self.extra["prefill_ns"] = self.stage.prefill_ns

    def go_on(self) -> tuple[Completion, list[str]]:
        """The decoder's continuation, and what is wrong with it."""
        done = self.stage.complete()
        self.extra.update(cache_n=done.cache_n, prompt_n=done.prompt_n, text=done.text)
        wrong = []
        try:
            self.stage.reused(done)
        except MeasurementError as error:
            wrong.append(error.message)
        assert self.stage.reference is not None
        if how := done.differs_from(self.stage.reference):
            wrong.append(f"{how} from the file route's")
        return done, wrong

    def judge(self, wrong: list[str]) -> None:
        if wrong:
            raise MeasurementError("; ".join(wrong))
        self.verified = True

    def close(self) -> None:
        """Everything is the stage's."""

    def row(self) -> Row:
        """What a model keeps of a prompt is its rows where attention is full, else what its state file has.

        A decoder whose cache does not lie in our memory is not said to have it there.
        """
        row = super().row()
        if self.stage.cache_kind != "full":
            row = replace(row, bytes=self.stage.state_bytes)
        measured = row.outcome is Outcome.OK
        return (
            replace(row, case={**row.case, "buffer": _SERVERS})
            if measured and not self.stage.in_region
            else row
        )


class FileArm(EngineArm):
    """The provider's server saves its slot, the decoder's restores it: overwritten in place, over the same folder."""

    rate_phase = "transfer"

    def prepare(self) -> None:
        super().prepare()
        self.extra["filesystem"] = self.stage.filesystem

    def sample(self) -> None:
        self.stage.save()
        self.stage.restore()
        saved = self.stage.save()
        restored = self.stage.restore()
        done, wrong = self.go_on()
        self.judge(wrong)
        self.bytes_copied = saved.bytes + restored.bytes
        self.extra["n_read"] = restored.bytes
        moved = saved.ns + restored.ns
        self.note(save=saved.ns, restore=restored.ns, server_restore=restored.server_ns, transfer=moved)
        if saved.server_ns is not None:
            self.note(server_save=saved.server_ns)
        self.note(first_token=done.first_token_ns, complete=done.ns, total=moved + done.first_token_ns)


class SharedArm(EngineArm):
    """Another process writes the rows into the decoder's own KV buffer, in place; its cells were set beforehand."""

    def prepare(self) -> None:
        if unstated := self.bench.params.cache.unstated_rotation():
            raise RefusedError(unstated)
        if not self.stage.kind.capabilities.exportable:
            raise RefusedError(f"{self.variant.buffer} has no descriptor to hand to a provider")
        super().prepare()
        if self.stage.cache_kind != "full":
            raise RefusedError(
                f"a model with a {self.stage.cache_kind} cache keeps its state in several buffers: only the file route"
            )
        if not self.stage.in_region:
            size = self.stage.region_bytes
            raise RefusedError(
                f"the decoder asked for no KV buffer of {size} bytes in one piece: it is not our region"
            )
        self.extra["proof"] = dict(self.stage.kind.proof(self.stage.target()))
        self.extra["cells_preset"] = True
        self.met(self.stage.placer())

    def sample(self) -> None:
        self.stage.preset()
        self._place()
        self.stage.preset()
        meter = Meter(self.stage.decoder_pid, self.stage.placer().pid)
        meter.start()
        handoff = self._place()
        moved = meter.stop()
        rows = self.stage.wrong_rows()
        done, wrong = self.go_on()
        self.judge([rows, *wrong] if rows else wrong)
        self.claim(handoff.done, self.stage.layout.payload)
        if moved is not None:
            self.extra["proc_io_bytes"] = moved.total
            if moved.total >= 4096:
                raise MeasurementError(
                    f"0 bytes copied cannot be claimed: {moved.total} bytes went through system calls"
                )
        self.note(
            write=handoff.done.ns, wake=handoff.wake_ns, first_token=done.first_token_ns, complete=done.ns
        )
        self.note(total=handoff.wake_ns + done.first_token_ns)

    def _place(self) -> Handoff:
        provider = self.stage.placer()
        number = provider.begin(self.bench.request(wire.Op.PLACE, 0, inject=self.bench.params.fault))
        handoff = provider.take_over(number, CellTable(1), None)
        self.account(handoff.done)
        return handoff
