"""One length with real servers: a decoder whose KV buffer is ours, and a prompt whose rows are known."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Final

from zcopy.buffers.base import Buffer
from zcopy.engines.llama.model import AGAIN, VOCABULARY, cache_kind, random_model
from zcopy.engines.llama.server import Server, Setup, installed, unavailable
from zcopy.engines.llama.slots import Completion, Moved, Slot
from zcopy.errors import MeasurementError, RefusedError, SkippedError, ZcopyError
from zcopy.model import Json
from zcopy.native import wire
from zcopy.native.calls import failed
from zcopy.native.provider import Provider, Request
from zcopy.native.region import Region
from zcopy.native.state import State
from zcopy.probes.handoff.params import Length
from zcopy.probes.handoff.stage import Bench, Stage
from zcopy.probes.handoff.statefile import StateFolder
from zcopy.probes.llama.compare import first_difference
from zcopy.probes.llama.forge import forge_rows
from zcopy.probes.llama.params import EngineParams, shape_of
from zcopy.probes.llama.promptfile import PromptFile, Saved

PROMPT_FILE: Final = "prompt.bin"
_FIRST_TOKEN: Final = 3  # below are the special ones of most vocabularies
_HEALTH_PROMPT: Final = 5  # tokens


class EngineStage(Stage):
    """Owns the servers, the folder they save to and the prompt. `ready` makes it all; `close` ends it all."""

    def __init__(self, bench: Bench, kind: Buffer, length: Length, engine: EngineParams) -> None:
        super().__init__(bench, kind, length)
        self.engine = engine
        self.reference: Completion | None = None  # what the decoder goes on with after the file route
        self.prefill_ns: int | None = None
        self.cache_kind = "full"
        self.filesystem = ""
        self.in_region = False  # the decoder's KV buffer is our region
        self._file: PromptFile | None = None
        self._servers: list[Server] = []
        self._decoder: Server | None = None
        self._decoder_slot: Slot | None = None
        self._provider_slot: Slot | None = None
        self._tokens: tuple[int, ...] = ()
        self._sound: Completion | None = None
        self._fault: ZcopyError | None = None
        self._placed = False

    # What arms ask for.

    @property
    def slot(self) -> Slot:
        """The decoder's."""
        assert self._decoder_slot is not None
        return self._decoder_slot

    @property
    def tokens(self) -> tuple[int, ...]:
        """The prompt."""
        return self._tokens

    @property
    def file(self) -> PromptFile:
        assert self._file is not None
        return self._file

    @property
    def state_bytes(self) -> int:
        """Bytes of the prompt's state as it was saved last; 0 before."""
        return (self._file and self._file.bytes) or 0

    @property
    def identity(self) -> dict[str, Json]:
        """What two rows must share to be compared: the engine's build, the model file's size, tokens of an answer."""
        size = self.engine.gguf.stat().st_size if self.engine.gguf else None
        return {"engine": self.version, "model_bytes": size, "n_predict": self.engine.n_predict}

    @property
    def version(self) -> str:
        """Which llama.cpp decodes."""
        return installed()

    @property
    def again(self) -> int:
        """Tokens that the decoder may process again after a restore."""
        return AGAIN[self.cache_kind]

    @property
    def decoder_pid(self) -> int:
        assert self._decoder is not None
        return self._decoder.pid

    def ready(self) -> None:
        """Starts the servers and makes the prompt; whatever fails, fails for every variant of the length."""
        if self._fault is not None:
            raise self._fault
        if self._decoder_slot is not None:
            return
        try:
            self._make()
        except ZcopyError as fault:
            self._fault = fault
            raise

    def save(self) -> Saved:
        """The prompt's state into its file: by the provider's server, or by zcopy's own writer where it is forged."""
        if self._provider_slot is None:
            return self.file.forge(self._state(), self.source()[0], self.packed, self.bench.ticks)
        return self.file.saved(self._provider_slot.save(self.file.name))

    def restore(self) -> Moved:
        """Restores the decoder's slot, checked before; after a failure a probe completion says what became of it."""
        return self._restore(self.file.name, self.file.bytes)

    def preset(self) -> None:
        """Sets the decoder's cells to the prompt's, with rows of zeros: an adopt call would leave the rows alone."""
        self._restore(self.file.preset, self.layout.state_bytes)

    def _restore(self, name: str, size: int | None) -> Moved:
        self.slot.check(self.length.cells + self.engine.n_predict)
        self.file.check(name, size)
        try:
            moved = self.slot.restore(name)
        except MeasurementError as error:
            raise MeasurementError(f"{error.message}; {self._afterwards()}") from error
        if moved.tokens != self.length.cells:
            raise MeasurementError(f"the decoder restored {moved.tokens} tokens of {self.length.cells}")
        return moved

    def complete(self) -> Completion:
        return self.slot.complete(self._tokens, self.engine.n_predict)

    def placer(self) -> Provider:
        """The provider process with the prompt's rows in its own memory, and the decoder's region mapped."""
        _, provider = self.source()
        if not self._placed:
            self._load(provider)
            provider.tensors(wire.Slot.REGION, self.layout, self.bench.params.cache.numbers)
            provider.map(wire.Slot.REGION, self.target().export())
            self._placed = True
        return provider

    def dress(self, region: Region) -> None:
        """Nothing: every cell that the prompt does not own is the engine's."""

    def wrong_rows(self) -> str | None:
        """The first row of the region that is not the prompt's, in words."""
        with self.target().access() as region:
            source = self.source()[0].view()
            for here, there in zip(self.layout.tensors, self.packed.tensors, strict=True):
                if at := first_difference(region, here, source, there, self.length.cells):
                    return f"wrong row: layer {here.layer} {'KV'[here.role]} {at}"
        return None

    def _shares(self, decoder: Server) -> bool:
        """Asked of the kernel: a decoder that allocates in another way has not taken the region."""
        return self._target is not None and decoder.maps(os.fstat(self._target.fd).st_ino)

    def close(self) -> None:
        while self._servers:
            self._servers.pop().close()
        super().close()

    # How it is made.

    def _make(self) -> None:
        if lack := unavailable():
            raise SkippedError(lack)
        params = self.bench.params
        folder = StateFolder(Path(params.state_dirs[0]))
        self._owned.callback(folder.close)
        self.filesystem = folder.filesystem
        model = self._model()
        self.cache_kind = cache_kind(model)
        full = self.cache_kind == "full"
        self._file = PromptFile(folder.path / PROMPT_FILE, self.layout.state_bytes if full else None)
        self._decoder = self._start("the decoder", model, shared=True)
        self.in_region = self._shares(self._decoder)
        slot = self._meet(Slot(self._decoder.client))
        if self.engine.forge:
            if not full:
                raise RefusedError(
                    f"--forge writes one cache of full attention, this model has a {self.cache_kind} one"
                )
            forge_rows(self.source()[0], self.packed, params.cache, self.bench.nonce())
        else:
            self._provider_slot = self._prefilled(
                Slot(self._start("the provider", model, shared=False).client)
            )
        self.save()
        self._decoder_slot = slot
        self._refer()

    def _meet(self, decoder: Slot) -> Slot:
        """Checks the decoder, draws the prompt from its vocabulary, and hears what it says to a short one."""
        decoder.check(self.length.cells + self.engine.n_predict)
        self._tokens = self._prompt(int(decoder.model().get("n_vocab") or VOCABULARY))
        self._sound = decoder.health(self._tokens[:_HEALTH_PROMPT])
        return decoder

    def _start(self, who: str, model: Path, *, shared: bool) -> Server:
        params = self.bench.params
        ours = shared and self.cache_kind == "full" and self.kind.capabilities.exportable
        region = self.target() if ours else None
        setup = Setup(
            model, self.length.ctx, self.file.path.parent, (params.cache.type_k.name, params.cache.type_v.name),
            flash=not params.cache.v_trans, threads=self.engine.threads,
            kv=(region.fd, self.region_bytes) if region else None,
        )  # fmt: skip
        server = Server(
            who, setup, deadline_ns=params.deadline_ns, ticks=self.bench.ticks, environ=self.bench.environ
        )
        self._servers.append(server)
        return server

    def _model(self) -> Path:
        if self.engine.gguf is not None:
            return self.engine.gguf
        try:
            return random_model(shape_of(self.bench.params.cache), self.engine.models)
        except OSError as error:
            raise failed(f"writing a model into {self.engine.models}", error) from error

    def _prompt(self, vocabulary: int) -> tuple[int, ...]:
        random = Random(self.bench.params.seed)
        return tuple(random.randrange(_FIRST_TOKEN, vocabulary) for _ in range(self.length.cells))

    def _prefilled(self, slot: Slot) -> Slot:
        self.prefill_ns = slot.prefill(self._tokens).ns
        return slot

    def _refer(self) -> None:
        """Goes on from the file, on both sides: this is what every variant must come to, bit for bit."""
        straight = self._straight_on()
        self.restore()
        again = self.complete()
        self.reused(again)
        if straight is not None and (how := again.differs_from(straight)):
            raise MeasurementError(
                f"the decoder does not go on as the provider does from the same file: {how}"
            )
        self.reference = again
        if self.cache_kind == "full" and "shared" in self.bench.params.routes:
            self.file.write_preset(self._state(), self.packed)

    def _straight_on(self) -> Completion | None:
        """What the provider itself goes on with, after restoring what it has saved; its slot is then as it was."""
        if self._provider_slot is None:
            return None
        self._provider_slot.restore(self.file.name)
        straight = self._provider_slot.complete(self._tokens, self.engine.n_predict)
        self._provider_slot.restore(self.file.name)
        return straight

    def reused(self, done: Completion) -> None:
        """Raises MeasurementError where the decoder has processed again what it was handed, whatever it said."""
        if done.cache_n + done.prompt_n != self.length.cells or done.prompt_n > self.again:
            raise MeasurementError(
                f"restored {self.length.cells}, re-used {done.cache_n}: the decoder processed {done.prompt_n} tokens"
                f" again, expected are at most {self.again}"
            )

    def _state(self) -> State:
        cache = self.bench.params.cache
        return State(cache.numbers, cache.rotation, 0, self._tokens)

    def _load(self, provider: Provider) -> None:
        cache = self.bench.params.cache
        request = Request(
            wire.Op.LOAD,
            0,
            slot=wire.Slot.SOURCE,
            types=cache.numbers,
            rotation=cache.rotation,
            path=str(self.file.path),
        )
        provider.finish(provider.begin(request))

    def _afterwards(self) -> str:
        """What a probe completion says of the slot after a failed restore."""
        try:
            now = self.slot.health(self._tokens[:_HEALTH_PROMPT])
        except MeasurementError as error:
            return f"and then {error.message}"
        assert self._sound is not None
        how = now.differs_from(self._sound)
        return (
            f"the slot is poisoned ({how} in a probe completion)"
            if how
            else "the slot is sound (a probe completion)"
        )
