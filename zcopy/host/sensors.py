"""Temperatures: thermal zones with their trip points, and the sensors of CPU and GPU.

Only sensors of the processors are read. Asking a disk or a radio may wake it, and takes milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zcopy.host.files import Root
from zcopy.model import Json

_ZONES: Final = "sys/class/thermal"
_HWMON: Final = "sys/class/hwmon"
_CHIPS: Final = frozenset(("amdgpu", "coretemp", "k10temp", "zenpower"))
_SLOWING_TRIPS: Final = frozenset(("passive", "hot", "critical"))  # an "active" trip only starts a fan
_BELIEVABLE: Final = range(-40, 200)  # firmware reports absurd temperatures and trip points for "none"
_TRIPS: Final = 12


@dataclass(frozen=True, slots=True)
class Temperature:
    """One sensor, in degrees Celsius; `limit` is where the box begins to slow down, where it says so."""

    name: str
    celsius: float
    limit: float | None

    def document(self) -> dict[str, Json]:
        return {"name": self.name, "celsius": self.celsius, "limit_celsius": self.limit}


def read_temperatures(root: Root) -> tuple[Temperature, ...]:
    """The temperatures now: thermal zones, then the hwmon sensors of CPU and GPU."""
    return (*_zones(root), *_chips(root))


def _zones(root: Root) -> Iterator[Temperature]:
    for name in root.names(_ZONES):
        folder = f"{_ZONES}/{name}"
        celsius = _celsius(root, f"{folder}/temp") if name.startswith("thermal_zone") else None
        if celsius is not None:
            yield Temperature(root.line(f"{folder}/type") or name, celsius, _first_trip(root, folder))


def _first_trip(root: Root, folder: str) -> float | None:
    trips = [
        _celsius(root, f"{folder}/trip_point_{index}_temp")
        for index in range(_TRIPS)
        if root.line(f"{folder}/trip_point_{index}_type") in _SLOWING_TRIPS
    ]
    return min((trip for trip in trips if trip is not None and trip > 0), default=None)


def _chips(root: Root) -> Iterator[Temperature]:
    for hwmon in root.names(_HWMON):
        folder = f"{_HWMON}/{hwmon}"
        chip = root.line(f"{folder}/name")
        if chip not in _CHIPS:
            continue
        for file in root.names(folder):
            match = re.fullmatch(r"(temp\d{1,3})_input", file)
            celsius = _celsius(root, f"{folder}/{file}") if match else None
            if match and celsius is not None:
                label = root.line(f"{folder}/{match[1]}_label") or match[1]
                yield Temperature(f"{chip} {label}", celsius, _limit(root, f"{folder}/{match[1]}"))


def _limit(root: Root, sensor: str) -> float | None:
    """Throttling begins at `max` on coretemp, at `crit` on amdgpu: the lower of those given is safe."""
    limits = [_celsius(root, f"{sensor}_max"), _celsius(root, f"{sensor}_crit")]
    return min((limit for limit in limits if limit is not None and limit > 0), default=None)


def _celsius(root: Root, file: str) -> float | None:
    number = root.number(file)
    return number / 1000 if number is not None and number // 1000 in _BELIEVABLE else None
