"""The words of `zcopy handoff --engine`: what they change of the defaults, and the probe they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zcopy.errors import UsageError

if TYPE_CHECKING:
    from zcopy.cli.context import AppContext
    from zcopy.model import Run
    from zcopy.probes.base import Probe
    from zcopy.probes.handoff.params import HandoffParams
    from zcopy.table import Report

_ENGINES: Final = ("none", "llama")
_SECOND: Final = 10**9


@dataclass(frozen=True, slots=True)
class EngineWords:
    """As they were given."""

    engine: str
    model: str
    gguf: str | None
    forge: bool
    provider_url: str | None
    decoder_url: str | None
    n_predict: int
    threads: int

    def check(self) -> None:
        """Raises UsageError for words that do not go together."""
        if self.engine not in _ENGINES:
            raise UsageError(f"--engine {self.engine!r} is none of {', '.join(_ENGINES)}")
        given = {
            "--gguf": self.gguf, "--forge": self.forge, "--provider-url": self.provider_url,
            "--decoder-url": self.decoder_url,
        }  # fmt: skip
        first = next((name for name, value in given.items() if value), None)
        if first and not self._llama:
            raise UsageError(f"{first} belongs to --engine llama")
        if bool(self.provider_url) != bool(self.decoder_url):
            raise UsageError("--provider-url and --decoder-url go together")

    @property
    def _llama(self) -> bool:
        return self.engine == "llama"

    @property
    def _remote(self) -> bool:
        return self.decoder_url is not None

    @property
    def cells(self) -> str | None:
        """The default of --cells, where it is another: a real prefill of 16399 tokens takes minutes."""
        return "307" if self._llama and not self.forge else None

    @property
    def routes(self) -> tuple[str, ...]:
        return ("file",) if self._remote else ("shared", "file")

    @property
    def regions(self) -> tuple[str, ...]:
        return ("reused",) if self._llama else ("reused", "fresh")

    @property
    def deadline_ns(self) -> int:
        """The default of --deadline: a prefill may take long."""
        return (600 if self._llama else 60) * _SECOND

    def probe(self, app: AppContext, params: HandoffParams, named: Sequence[tuple[str, str]]) -> Probe:
        """The probe that measures this."""
        if not self._llama:
            from zcopy.probes.handoff.probe import HandoffProbe

            return HandoffProbe(params, named)
        from platformdirs import user_cache_path

        from zcopy.probes.llama.params import EngineParams
        from zcopy.probes.llama.probe import EngineProbe

        urls = (self.provider_url or "", self.decoder_url or "") if self._remote else None
        engine = EngineParams(
            params,
            models=user_cache_path("zcopy") / "models",
            gguf=self._model(app, params),
            forge=self.forge,
            urls=urls,
            n_predict=self.n_predict,
            threads=self.threads,
        )
        return EngineProbe(engine, named)

    def _model(self, app: AppContext, params: HandoffParams) -> Path | None:
        """The model file: --gguf, or what --model named, unless that was a preset or a geometry in numbers."""
        if self.gguf:
            return app.settings.cwd / self.gguf
        from zcopy.probes.handoff.geometry import PRESETS

        from_file = self.model not in PRESETS and params.cache.geometry.name == Path(self.model).name
        return app.settings.cwd / self.model if from_file else None

    def report(self, run: Run) -> Report:
        """The run's tables."""
        if self._llama:
            from zcopy.cli.engine_tables import engine_report

            return engine_report(run)
        from zcopy.cli.handoff_tables import handoff_report

        return handoff_report(run)
