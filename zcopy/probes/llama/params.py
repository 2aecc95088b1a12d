"""What a handoff with a llama.cpp decoder was asked for, beside what every handoff is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zcopy.engines.llama.http import address
from zcopy.engines.llama.model import Shape
from zcopy.errors import UsageError
from zcopy.model import Json
from zcopy.probes.handoff.geometry import Cache
from zcopy.probes.handoff.params import HandoffParams, Length, Variant

ROUTES: Final = ("shared", "file")
INJECTS: Final = ("no-write", "swap-kv")
_MOST: Final = 1024
_CTX_STEP: Final = 256  # llama.cpp rounds a context up to it


@dataclass(frozen=True, slots=True)
class EngineParams:
    """The options' values; `gguf` None: a model with random weights for the preset's cache."""

    handoff: HandoffParams
    models: Path  # where random models are kept
    gguf: Path | None = None
    forge: bool = False
    urls: tuple[str, str] | None = None  # of the provider and the decoder
    n_predict: int = 8
    threads: int = 2

    def __post_init__(self) -> None:
        self._known_words()
        self._fitting_lengths()
        params = self.handoff
        if params.scatter or params.provider_cmd or params.populate:
            raise UsageError("--engine llama has no --scatter, --populate and --provider-cmd")
        if params.inject and "shared" not in params.routes:
            raise UsageError(f"--inject {params.inject} is about the shared route, which is not measured")
        if self.urls is not None and ("shared" in params.routes or self.forge):
            raise UsageError(
                "servers that run already take the file route only, after a prefill of their own"
            )
        for url in self.urls or ():
            address(url)
        if self.gguf is None and self.urls is None:
            shape_of(params.cache)

    def _known_words(self) -> None:
        params = self.handoff
        for name, value, known in (
            ("--route", params.routes, ROUTES),
            ("--inject", (params.inject,) if params.inject else (), INJECTS),
            ("--region", params.regions, ("reused",)),
            ("--pass", params.passing, ("scm",)),
            ("--provider", (params.provider,), ("plain",)),
        ):
            for word in value:
                if word not in known:
                    raise UsageError(f"--engine llama has no {name} {word}", f"there is: {', '.join(known)}")

    def _fitting_lengths(self) -> None:
        for what, number in (("--n-predict", self.n_predict), ("--threads", self.threads)):
            if not 1 <= number <= _MOST:
                raise UsageError(f"{what} {number} is not between 1 and {_MOST}")
        for length in self.handoff.lengths:
            if length.ctx % _CTX_STEP:
                raise UsageError(f"--ctx {length.ctx}: llama.cpp's caches are multiples of {_CTX_STEP} cells")
            if length.cells + self.n_predict > length.ctx:
                raise UsageError(
                    f"--ctx {length.ctx} has no room for {self.n_predict} tokens after {length.cells}"
                )

    def document(self) -> dict[str, Json]:
        return {
            **self.handoff.document(),
            "engine": "llama",
            "gguf": str(self.gguf) if self.gguf else None,
            "forge": self.forge,
            "provider_url": self.urls[0] if self.urls else None,
            "decoder_url": self.urls[1] if self.urls else None,
            "n_predict": self.n_predict,
            "threads": self.threads,
        }


def shape_of(cache: Cache) -> Shape:
    """The shape that a random model needs for this cache. Raises UsageError for what llama's architecture has not."""
    geometry = cache.geometry
    if len(set(geometry.rows)) != 1 or geometry.head_k != geometry.head_v:
        raise UsageError("layers or heads of several shapes need a model of your own", "give one with --gguf")
    return Shape(len(geometry.rows), geometry.rows[0][0] // geometry.head_k, geometry.head_k)


@dataclass(frozen=True, slots=True)
class EngineVariant(Variant):
    """One way of handing over to an engine."""

    forge: bool = False
    threads: int = 2

    def case(self, params: HandoffParams, length: Length) -> Mapping[str, Json]:
        plain = Variant.case(self, params, length)
        kept = {key: value for key, value in plain.items() if key not in ("scatter", "provider")}
        return {**kept, "engine": "llama", "forge": self.forge, "threads": self.threads}
