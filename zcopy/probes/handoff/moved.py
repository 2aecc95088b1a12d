"""The routes that move bytes: the state file, the bounce buffer, the pipe."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from zcopy.errors import MeasurementError, RefusedError
from zcopy.native import rows, wire
from zcopy.native.calls import NativeError
from zcopy.native.provider import Done, Handoff, Provider
from zcopy.native.region import Region
from zcopy.native.state import State
from zcopy.probes.handoff.arm import Arm
from zcopy.probes.handoff.evidence import Meter
from zcopy.probes.handoff.params import Variant
from zcopy.probes.handoff.stage import Bench, Stage
from zcopy.probes.handoff.statefile import StateFile

_PIPE_BYTES = 1 << 20
_SLACK = 64 * 1024  # what else a process may read or write beside the payload without spoiling the proof


class MovingArm(Arm):
    """A target region, reused and warm, and the provider's packed source."""

    def __init__(self, bench: Bench, stage: Stage, variant: Variant) -> None:
        super().__init__(bench, stage, variant)
        self._region: Region | None = None
        self._seed = 0

    @property
    def region(self) -> Region:
        if self._region is None:
            raise MeasurementError("the arm was never ready")
        return self._region

    def prepare(self) -> None:
        """The target gets its pages and its guard in a first, untimed request."""
        self._region = self.stage.target()
        self.extra["proof"] = dict(self.stage.kind.proof(self.region))
        self._seed = self.stage.target_seed
        self.hand_over(self.bench.nonce(), timed=False)

    def sample(self) -> None:
        self.hand_over(self.bench.nonce(), timed=False)
        self.hand_over(self.bench.nonce(), timed=True)

    def hand_over(self, nonce: int, *, timed: bool) -> None:
        """One request: the rows are made, moved, adopted and (where timed) noted and verified."""
        raise NotImplementedError

    def fill_source(self, nonce: int) -> Done:
        """The provider computes its rows: what it does on every route, and part of no total."""
        provider = self.server()
        fault = self.bench.params.fault
        sound = fault is wire.Inject.EARLY_DONE and self.variant.route != "copy"
        request = self.bench.request(
            wire.Op.WRITE, nonce, slot=wire.Slot.SOURCE, inject=wire.Inject.NONE if sound else fault
        )
        return self.account(provider.finish(provider.begin(request)))

    def server(self) -> Provider:
        """The provider that has the source."""
        return self.met(self.stage.source()[1])

    @property
    def late(self) -> wire.Inject:
        """The fault to give to the step that moves the rows."""
        fault = self.bench.params.fault
        return fault if fault is wire.Inject.EARLY_DONE else wire.Inject.NONE

    def check(self, nonce: int) -> None:
        self.require(self.stage.verify(self.region, nonce, self._seed))

    def meter(self, provider: Provider) -> Meter:
        meter = Meter(os.getpid(), provider.pid)
        meter.start()
        return meter

    def prove(self, meter: Meter, *, read: int, written: int) -> None:
        """What the route counted must be what the kernel saw, give or take a few messages."""
        moved = meter.stop()
        if moved is None:
            return
        self.extra["proc_io_bytes"] = moved.total
        for what, counted, seen in (
            ("read by the decoder", read, moved.decoder_read),
            ("written by the provider", written, moved.provider_written),
        ):
            if not counted <= seen <= counted + _SLACK:
                raise MeasurementError(f"{counted} bytes {what} were counted, the kernel saw {seen}")

    def close(self) -> None:
        self._region = None


class FileArm(MovingArm):
    """The provider saves its sequence state to a file, the decoder reads it back: in place, or a new file each time."""

    rate_phase = "transfer"

    def __init__(self, bench: Bench, stage: Stage, variant: Variant) -> None:
        super().__init__(bench, stage, variant)
        self._file: StateFile | None = None
        cache = bench.params.cache
        self._state = State(cache.numbers, cache.rotation)
        self._pos = rows.positions(stage.length.cells)

    def prepare(self) -> None:
        self._file = StateFile(Path(self.variant.state_dir or ""), fresh=self.variant.region == "fresh")
        self.extra["filesystem"] = self._file.filesystem
        super().prepare()

    def hand_over(self, nonce: int, *, timed: bool) -> None:
        assert self._file is not None
        self.fill_source(nonce)
        provider = self.server()
        meter = self.meter(provider)
        path = self._file.next()
        done = self._save(provider, path)
        read, restore = self._restore(path)
        adopt = self.stage.table.adopt(self.stage.adoption)
        self.prove(meter, read=read, written=done.bytes)
        self.stage.forget()
        self._file.used()
        if timed:
            self.check(nonce)
        self.claim(done, self.stage.layout.state_bytes)
        if timed:
            self.bytes_copied = read + done.bytes
            self.extra["n_read"] = read
            moved = done.ns + restore
            self.note(save=done.ns, restore=restore, transfer=moved, adopt=adopt, total=moved + adopt)

    def _save(self, provider: Provider, path: str) -> Done:
        flags = wire.BeginFlag.FRESH_FILE if self.variant.region == "fresh" else wire.PLAIN
        request = self.bench.request(
            wire.Op.SAVE, 1, slot=wire.Slot.SOURCE, flags=flags, inject=self.late, path=path
        )
        return self.account(provider.finish(provider.begin(request)))

    def _restore(self, path: str) -> tuple[int, int]:
        """Bytes read and ns, opening and closing included."""
        try:
            return self._state.load(path, self.region, self.stage.layout, self._pos)
        except NativeError as error:
            raise MeasurementError(
                f"the state file {path}: {_state_fault(error, path, self.stage)}"
            ) from error

    def close(self) -> None:
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None


def _state_fault(error: NativeError, path: str, stage: Stage) -> str:
    if error.name in ("ENODATA", "E2BIG"):
        return f"{Path(path).stat().st_size} bytes long, expected {stage.layout.state_bytes}"
    known = {"EILSEQ": "not a sequence state of version 4", "ESTALE": "of another geometry"}
    return known.get(error.name, str(error.strerror))


class CopyArm(MovingArm):
    """A shared bounce buffer: the provider writes rows there, the decoder copies them into its cache."""

    rate_phase = "copy"

    def hand_over(self, nonce: int, *, timed: bool) -> None:
        if unstated := self.bench.params.cache.unstated_rotation():
            raise RefusedError(unstated)
        source, provider = self.stage.source()[0], self.server()
        request = self.bench.request(
            wire.Op.WRITE, nonce, slot=wire.Slot.SOURCE, inject=self.bench.params.fault
        )
        handoff, sync = self._take_over(provider, provider.begin(request), source)
        self.stage.forget()
        if timed:
            self.check(nonce)
        self.claim(handoff.done, self.stage.layout.payload)
        if timed:
            self.bytes_copied = handoff.copied
            self.note(
                write=handoff.done.ns, wake=handoff.wake_ns, copy=handoff.copy_ns, adopt=handoff.adopt_ns
            )
            self.note(ready=handoff.ready_ns, total=handoff.ready_ns + sync)
            if self.region.dmabuf:
                self.note(sync=sync)

    def _take_over(self, provider: Provider, number: int, source: Region) -> tuple[Handoff, int]:
        """The copy and the adoption inside a pair of begin and end, and what the pair took on a dma-buf, in ns."""
        sync = self.region.begin(write=True)
        try:
            rows_ = (self.region, self.stage.layout, source, self.stage.packed)
            handoff = provider.take_over(number, self.stage.table, self.stage.adoption, rows_)
        finally:
            sync += self.region.end(write=True)
        self.account(handoff.done)
        return handoff, sync


class PipeArm(MovingArm):
    """A pipe: every byte is copied into the kernel and out of it again, in ever the same few pages."""

    rate_phase = "stream"

    def __init__(self, bench: Bench, stage: Stage, variant: Variant) -> None:
        super().__init__(bench, stage, variant)
        self._pipe = -1
        self._writer: Provider | None = None  # who has the other end

    def prepare(self) -> None:
        if unstated := self.bench.params.cache.unstated_rotation():
            raise RefusedError(unstated)
        super().prepare()

    def _give_end(self, provider: Provider) -> None:
        """A pipe to this provider; the writing end stays with it alone, so that its end is the stream's."""
        self._close_pipe()
        self._pipe, end = os.pipe2(os.O_CLOEXEC)
        try:
            with suppress(OSError):  # an unprivileged user may be at fs.pipe-user-pages-soft
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            os.set_blocking(self._pipe, False)
            self.extra["pipe_bytes"] = fcntl.fcntl(end, fcntl.F_GETPIPE_SZ)
            provider.pipe(end)
        finally:
            os.close(end)
        self._writer = provider

    def hand_over(self, nonce: int, *, timed: bool) -> None:
        self.fill_source(nonce)
        provider = self.server()
        if provider is not self._writer:  # none yet, or another variant's fault has cost us the last one
            self._give_end(provider)
        meter = self.meter(provider)
        number = provider.begin(
            self.bench.request(wire.Op.STREAM, 1, slot=wire.Slot.SOURCE, inject=self.late)
        )
        read = self._receive(provider)
        ended = self.bench.ticks()
        adopt = self.stage.table.adopt(self.stage.adoption)
        done = self.account(provider.finish(number))
        self.prove(meter, read=read, written=done.bytes)
        self.stage.forget()
        if timed:
            self.check(nonce)
        self.claim(done, self.stage.layout.payload)
        if timed:
            self.bytes_copied = read + done.bytes
            self.extra["n_read"] = read
            self.note(stream=ended - done.begin_ns, adopt=adopt, total=ended - done.begin_ns + adopt)

    def _receive(self, provider: Provider) -> int:
        timeout_ms = min(self.bench.params.deadline_ns // 1_000_000, (1 << 31) - 1)
        try:
            with self.region.access(write=True):
                return rows.receive_rows(
                    self._pipe, provider.channel.fd, timeout_ms, self.region, self.stage.layout
                )
        except NativeError as error:
            short = "said done, or went away, before all rows were written"
            text = short if error.name == "ENODATA" else f"did not stream: {error.strerror}"
            channel = provider.channel
            raise channel.last_words() or channel.fail(error.errno or 0, text) from error

    def close(self) -> None:
        super().close()
        self._writer = None
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
