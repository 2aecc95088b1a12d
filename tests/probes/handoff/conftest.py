from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from zcopy.host import Host
from zcopy.model import Row, Warning_
from zcopy.probes.base import Context
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.probes.handoff.probe import HandoffProbe

TINY = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])


@dataclass
class Run:
    """A run of the probe: what it yielded and warned of, and the probe itself."""

    probe: HandoffProbe
    rows: list[Row] = field(default_factory=list)
    warnings: list[Warning_] = field(default_factory=list)

    def row(self, **case: Any) -> Row:
        """The only row with these values in its case."""
        found = [row for row in self.rows if all(row.case.get(key) == value for key, value in case.items())]
        assert len(found) == 1, f"{len(found)} rows with {case}: {[dict(row.case) for row in self.rows]}"
        return found[0]

    def reasons(self) -> dict[tuple[Any, Any], str | None]:
        return {(row.case["route"], row.case["region"]): row.reason for row in self.rows}


Handoff = Callable[..., Run]


@pytest.fixture(scope="session")
def real() -> Host:
    """This box."""
    return Host.read()


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A folder for state files, which must be empty (or never made) at the end."""
    folder = tmp_path / "states"
    yield folder
    assert not folder.exists() or list(folder.iterdir()) == []


@pytest.fixture
def start(state_dir: Path) -> Callable[..., HandoffProbe]:
    """A probe for `cells` of `ctx` cells of the tiny preset, with other parameters as given."""

    def new(cells: int = 37, ctx: int = 256, *, cache: Cache = TINY, **changes: Any) -> HandoffProbe:
        default = HandoffParams(cache, (Length(cells, ctx),), reps=1, state_dirs=(str(state_dir),))
        return HandoffProbe(replace(default, **changes))

    return new


@pytest.fixture
def context(real: Host) -> Callable[..., Context]:
    """What a probe is handed on this box, with other values as given."""

    def new(**changes: Any) -> Context:
        default = Context(real, time.monotonic_ns, lambda *_: None, lambda _: None, dict(os.environ))
        return replace(default, **changes)

    return new


@pytest.fixture
def handoff(start: Callable[..., HandoffProbe], context: Callable[..., Context]) -> Handoff:
    """Runs the probe to its end; `host` and `progress` go to its context, the rest to `start`."""

    def run(*, host: Host | None = None, progress: Callable[..., None] | None = None, **params: Any) -> Run:
        done = Run(start(**params))
        changes: dict[str, Any] = {"warn": done.warnings.append}
        if host is not None:
            changes["host"] = host
        if progress is not None:
            changes["progress"] = progress
        done.rows.extend(done.probe.measure(context(**changes)))
        return done

    return run
