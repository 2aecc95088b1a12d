"""Real llama.cpp servers from the wheel, with small random models; skipped where it is not installed."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from zcopy.buffers import registry
from zcopy.engines.llama.model import random_model
from zcopy.engines.llama.server import Server, Setup, unavailable
from zcopy.host import Host
from zcopy.model import Row, Warning_
from zcopy.probes.base import Context
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.probes.handoff.stage import Bench
from zcopy.probes.llama.params import EngineParams, shape_of
from zcopy.probes.llama.probe import EngineProbe
from zcopy.probes.llama.stage import EngineStage

TINY = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])
MINUTE = 60 * 10**9
CELLS, CTX = 40, 512


@pytest.fixture(autouse=True)
def _wheel() -> None:
    if lack := unavailable():
        pytest.skip(lack)
    pytest.importorskip("gguf", reason="the package gguf is not installed")


@pytest.fixture(scope="session")
def toys() -> Any:
    """The module beside this one: helper modules cannot be imported by name."""
    spec = importlib.util.spec_from_file_location("llama_toys", Path(__file__).with_name("toys.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def params(tmp_path: Path, models: Path) -> Callable[..., EngineParams]:
    """A run of the tiny cache; words of HandoffParams and of EngineParams as given."""

    def new(cells: int = CELLS, ctx: int = CTX, cache: Cache = TINY, **more: Any) -> EngineParams:
        own = {key: more.pop(key) for key in ("gguf", "forge", "urls", "n_predict", "threads") if key in more}
        states = more.pop("state_dirs", (str(tmp_path / "states"),))
        handoff = HandoffParams(
            **{
                "cache": cache, "lengths": (Length(cells, ctx),), "regions": ("reused",), "reps": 2,
                "state_dirs": states, "deadline_ns": MINUTE, **more,
            }
        )  # fmt: skip
        return EngineParams(handoff, models, **own)

    return new


@dataclass
class Ran:
    rows: list[Row] = field(default_factory=list)
    warnings: list[Warning_] = field(default_factory=list)

    def row(self, route: str) -> Row:
        (found,) = (row for row in self.rows if row.case["route"] == route)
        return found


@pytest.fixture
def measure(params: Callable[..., EngineParams], tmp_path: Path) -> Callable[..., Ran]:
    """Runs the probe; its state folder must be empty afterwards."""

    def run(progress: Callable[[str, int, int], None] = lambda *_: None, **more: Any) -> Ran:
        ran = Ran()
        context = Context(Host.read(), time.monotonic_ns, progress, ran.warnings.append, dict(os.environ))
        ran.rows.extend(EngineProbe(params(**more)).measure(context))
        states = tmp_path / "states"
        assert not states.exists() or list(states.iterdir()) == []
        return ran

    return run


@pytest.fixture
def stage(params: Callable[..., EngineParams]) -> Iterator[Callable[..., EngineStage]]:
    """A stage on memfd that is ready: servers up, prompt made, reference taken."""
    made: list[EngineStage] = []

    def new(**more: Any) -> EngineStage:
        engine = params(**more)
        bench = Bench(engine.handoff, time.monotonic_ns, dict(os.environ), Random(1))
        one = EngineStage(bench, registry.find("memfd", Host.read()), engine.handoff.lengths[0], engine)
        made.append(one)
        one.ready()
        return one

    yield new
    for one in made:
        one.close()


@pytest.fixture
def serve(models: Path) -> Iterator[Callable[..., Server]]:
    """Servers that run by themselves, as a user's would."""
    running: list[Server] = []

    def start(folder: Path, model: Path | None = None, ctx: int = CTX, **setup: Any) -> Server:
        path = model or random_model(shape_of(TINY), models)
        one = Server(
            "a server",
            Setup(path, ctx, folder, **setup),
            deadline_ns=MINUTE,
            ticks=time.monotonic_ns,
            environ=os.environ,
        )
        running.append(one)
        return one

    yield start
    for one in running:
        one.close()
