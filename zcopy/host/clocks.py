"""Who sets the clocks: CPU governors (cpufreq), device governors (devfreq), GPU performance levels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from zcopy.host.cpulist import cpus_or_empty, cpus_text
from zcopy.host.files import Root
from zcopy.model import Json

_POLICIES: Final = "sys/devices/system/cpu/cpufreq"
_DEVFREQ: Final = "sys/class/devfreq"
_DRM: Final = "sys/class/drm"
# What each kind calls "do not save power".
_FASTEST: Final = {"cpu": ("performance",), "devfreq": ("performance",), "drm": ("high", "profile_peak")}


@dataclass(frozen=True, slots=True)
class Clock:
    """One clock and who sets it. Frequencies in Hz; `now_hz` only for devfreq, where reading it wakes nobody.

    `kind` is cpu, devfreq or drm; `cpus` those of a CPU clock; `path` the file that changes the governor.
    """

    kind: str
    name: str
    governor: str | None
    driver: str | None
    min_hz: int | None
    max_hz: int | None
    now_hz: int | None
    cpus: tuple[int, ...]
    path: str

    @property
    def fastest(self) -> bool:
        """Whether this clock is told not to save power (userspace governors may be, which cannot be seen)."""
        return self.governor in _FASTEST[self.kind]

    def document(self) -> dict[str, Json]:
        return {
            "kind": self.kind,
            "name": self.name,
            "governor": self.governor,
            "driver": self.driver,
            "min_hz": self.min_hz,
            "max_hz": self.max_hz,
            "now_hz": self.now_hz,
            "cpus": cpus_text(self.cpus),
        }


def read_clocks(root: Root) -> tuple[Clock, ...]:
    """Every clock with a governor: CPUs first (alike policies merged into one), devfreq, then DRM cards."""
    return (*_merged(_cpu_clocks(root)), *_devfreq_clocks(root), *_drm_clocks(root))


def _cpu_clocks(root: Root) -> Iterator[Clock]:
    for name in root.names(_POLICIES):
        folder = f"{_POLICIES}/{name}"
        if re.fullmatch(r"policy\d+", name):
            yield Clock(
                kind="cpu",
                name=name,
                governor=root.line(f"{folder}/scaling_governor"),
                driver=root.line(f"{folder}/scaling_driver"),
                min_hz=_khz(root, f"{folder}/scaling_min_freq"),
                max_hz=_khz(root, f"{folder}/scaling_max_freq"),
                now_hz=None,
                cpus=_policy_cpus(root, folder),
                path=f"/{folder}/scaling_governor",
            )


def _policy_cpus(root: Root, folder: str) -> tuple[int, ...]:
    """affected_cpus separates its numbers with spaces."""
    return cpus_or_empty((root.line(f"{folder}/affected_cpus") or "").replace(" ", ","))


def _khz(root: Root, file: str) -> int | None:
    number = root.number(file)
    return number * 1000 if number is not None else None


def _merged(clocks: Iterator[Clock]) -> list[Clock]:
    """One clock for all policies that differ only in their CPUs; it keeps the first one's name and file."""
    found: dict[object, Clock] = {}
    for clock in clocks:
        kind = (clock.governor, clock.driver, clock.min_hz, clock.max_hz)
        first = found.get(kind)
        cpus = clock.cpus if first is None else (*first.cpus, *clock.cpus)
        found[kind] = replace(first or clock, cpus=tuple(sorted(cpus)))
    return list(found.values())


def _devfreq_clocks(root: Root) -> Iterator[Clock]:
    for name in root.names(_DEVFREQ):
        folder = f"{_DEVFREQ}/{name}"
        yield Clock(
            kind="devfreq",
            name=name,
            governor=root.line(f"{folder}/governor"),
            driver=root.link(f"{folder}/device/driver"),
            min_hz=root.number(f"{folder}/min_freq"),
            max_hz=root.number(f"{folder}/max_freq"),
            now_hz=root.number(f"{folder}/cur_freq"),
            cpus=(),
            path=f"/{folder}/governor",
        )


def _drm_clocks(root: Root) -> Iterator[Clock]:
    """amdgpu has no governor but a performance level of its own."""
    for name in root.names(_DRM):
        file = f"{_DRM}/{name}/device/power_dpm_force_performance_level"
        level = root.line(file) if re.fullmatch(r"card\d+", name) else None
        if level is not None:
            driver = root.link(f"{_DRM}/{name}/device/driver")
            yield Clock("drm", name, level, driver, None, None, None, (), f"/{file}")
