"""What a run takes of a box before it measures: the locks of what it touches, and a look at who else does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from zcopy.errors import BusyError
from zcopy.history.recorder import NullRecorder
from zcopy.host import Host
from zcopy.locks import Clock, LockSettings
from zcopy.model import Json, Row, Warning_
from zcopy.probes.base import Context, Plan, Probe
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.probes.handoff.probe import HandoffProbe
from zcopy.runner import Session, run

CACHE = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])


@pytest.mark.parametrize(
    ("buffers", "locks"),
    [
        (("memfd", "udmabuf"), ("cpu",)),
        (("memfd", "drm:card1"), ("cpu", "gpu0")),
        (("drm:card1", "drm:card9"), ("cpu", "gpu0")),
    ],
)
def test_a_handoff_locks_what_is_behind_its_buffers(
    buffers: tuple[str, ...], locks: tuple[str, ...], host: Callable[[str], Host]
) -> None:
    probe = HandoffProbe(HandoffParams(CACHE, (Length(5, 64),), buffers=buffers))
    assert probe.devices(host("strix-halo")) == locks


class Touching(Probe):
    """Touches a device and measures nothing."""

    command = "touch"

    def devices(self, host: Host) -> tuple[str, ...]:
        return ("cpu", "gpu0")

    def params(self) -> Mapping[str, Json]:
        return {}

    def plan(self, host: Host) -> Plan:
        return Plan((), 0, 0, 0)

    def measure(self, context: Context) -> Generator[Row, None, None]:
        yield Row({})


@pytest.fixture
def session(tmp_path: Path) -> Callable[..., Session]:
    def new(**more: Any) -> Session:
        return Session(
            run_id="a", started="2026-11-30T21:00:00Z", version="0.1.0", argv=(), environ=dict(os.environ),
            keeper=NullRecorder(), clock=Clock(time.monotonic_ns, time.time_ns),
            locks=LockSettings(lock_dir=tmp_path / "locks"), progress=lambda *_: None, notify=lambda _: None, **more,
        )  # fmt: skip

    return new


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: a quiet box whose gpu0 somebody else has open."""

    def told(_self: Host, devices: Iterable[str]) -> tuple[Warning_, ...]:
        return (Warning_("device-in-use", "gpu0 is in use: Xorg (pid 7)"),) if "gpu0" in devices else ()

    monkeypatch.setattr(Host, "quiet_warnings", lambda _: ())
    monkeypatch.setattr(Host, "use_warnings", told)


def test_the_locks_are_in_the_run(session: Callable[..., Session]) -> None:
    done = run(Touching(), session())
    assert [(lock.device, lock.state) for lock in done.locks] == [("cpu", "held"), ("gpu0", "held")]


@pytest.mark.usefixtures("in_use")
def test_who_else_has_the_device_open_is_a_warning(session: Callable[..., Session]) -> None:
    assert [warning.code for warning in run(Touching(), session()).warnings] == ["device-in-use"]


@pytest.mark.usefixtures("in_use")
def test_a_box_in_use_is_not_quiet(session: Callable[..., Session]) -> None:
    with pytest.raises(BusyError, match="gpu0 is in use"):
        run(Touching(), session(require_quiet=True))
