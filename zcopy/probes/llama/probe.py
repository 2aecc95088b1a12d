"""The probe: the handoff's lengths and rounds, with a llama.cpp server where its own decoder would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from zcopy.buffers.base import Buffer
from zcopy.model import Json
from zcopy.probes.handoff.arm import Arm
from zcopy.probes.handoff.params import Length, Variant
from zcopy.probes.handoff.probe import HandoffProbe
from zcopy.probes.handoff.room import Needs, Sizes
from zcopy.probes.handoff.stage import Bench, Stage
from zcopy.probes.llama.arm import EngineArm, FileArm, SharedArm
from zcopy.probes.llama.params import EngineParams, EngineVariant
from zcopy.probes.llama.remote import RemoteStage
from zcopy.probes.llama.stage import EngineStage

_ARMS: Final[Mapping[str, type[EngineArm]]] = {"shared": SharedArm, "file": FileArm}


class EngineProbe(HandoffProbe):
    """`zcopy handoff --engine llama`."""

    def __init__(self, engine: EngineParams, named: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(engine.handoff, named)
        self._engine = engine

    def params(self) -> Mapping[str, Json]:
        return self._engine.document()

    def variants(self, name: str, kind: Buffer) -> Iterator[Variant]:
        engine, params = self._engine, self._engine.handoff
        for route in params.routes:
            state_dir = params.state_dirs[0] if route == "file" else None
            yield EngineVariant(
                route, name, "reused", passing="scm" if route == "shared" else None, state_dir=state_dir,
                forge=engine.forge, threads=engine.threads,
            )  # fmt: skip

    def needs(self, variant: Variant, sizes: Sizes, first_cache: bool, on_memory: bool) -> Needs:
        """The decoder's cache, the packed rows, the state file, and for a prefill the provider's cache.

        Servers that run already have what they need; how much they save is not known before.
        """
        if self._engine.urls:
            return Needs()
        own = 0 if self._engine.forge else sizes.region
        return Needs(
            memory=sizes.state if on_memory else 0, cache=sizes.region + own, source=sizes.payload,
            disk=0 if on_memory else sizes.state,
        )  # fmt: skip

    def stage(self, bench: Bench, kind: Buffer, length: Length) -> Stage:
        kind_of_stage = RemoteStage if self._engine.urls else EngineStage
        return kind_of_stage(bench, kind, length, self._engine)

    def arm(self, bench: Bench, stage: Stage, variant: Variant) -> Arm:
        assert isinstance(stage, EngineStage)
        return _ARMS[variant.route](bench, stage, variant)
