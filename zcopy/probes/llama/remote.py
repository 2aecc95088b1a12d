"""Servers that run already: zcopy asks them to save and to restore, and looks at the file in between."""

from __future__ import annotations

from pathlib import Path

from zcopy.engines.llama.http import Client
from zcopy.engines.llama.model import cache_kind
from zcopy.engines.llama.slots import Slot
from zcopy.errors import MeasurementError, RefusedError
from zcopy.host.mounts import filesystem
from zcopy.probes.llama.promptfile import PromptFile
from zcopy.probes.llama.stage import EngineStage

_MODEL_KEYS = ("n_vocab", "n_params", "n_embd")  # what two servers of one model have in common


class RemoteStage(EngineStage):
    """Owns nothing but the file that it has had saved into the servers' folder."""

    @property
    def version(self) -> str:
        return self._build

    _build = ""

    def close(self) -> None:
        if self._file is not None:
            self._file.path.unlink(missing_ok=True)
        super().close()

    def _make(self) -> None:
        params, engine = self.bench.params, self.engine
        assert engine.urls is not None
        folder = Path(params.state_dirs[0])
        self.filesystem = filesystem(folder)
        self._file = PromptFile(folder / f"zcopy-{self.bench.nonce():016x}.bin", None)
        provider, decoder = (
            Slot(Client(f"the {who} at {url}", url, params.deadline_ns, self.bench.ticks))
            for who, url in zip(("provider", "decoder"), engine.urls, strict=True)
        )
        provider.check(self.length.cells + engine.n_predict)
        self._meet(decoder)
        self._same_model(provider, decoder)
        self._build = str(decoder.model().get("build_info"))
        self._provider_slot = self._prefilled(provider)
        self.save()
        self._decoder_slot = decoder
        self._refer()

    def _same_model(self, provider: Slot, decoder: Slot) -> None:
        ours, theirs = provider.model(), decoder.model()
        for key in _MODEL_KEYS:
            if ours.get(key) != theirs.get(key):
                raise RefusedError(
                    f"the servers have different models: {key} is {ours.get(key)} and {theirs.get(key)}"
                )
        try:
            self.cache_kind = cache_kind(Path(str(theirs.get("model_path"))))
        except MeasurementError:  # a path of another machine's or container's
            self.cache_kind = "unknown"
