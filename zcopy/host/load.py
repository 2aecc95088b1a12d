"""How busy the box is now: load averages and pressure stall information."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zcopy.host.files import Root
from zcopy.model import Json

_RESOURCES: Final = ("cpu", "io", "memory")
_AVG10: Final = re.compile(r"^some avg10=(\d{1,3}(?:\.\d{1,4})?)\s", re.MULTILINE)
_AVERAGES: Final = re.compile(r"(\d{1,9}\.\d{1,4}) (\d{1,9}\.\d{1,4}) (\d{1,9}\.\d{1,4}) ")


@dataclass(frozen=True, slots=True)
class Load:
    """Load averages over 1, 5 and 15 minutes; `pressure` is the percentage of the last 10 s in which some
    task waited for that resource."""

    one: float | None
    five: float | None
    fifteen: float | None
    pressure: Mapping[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Json]:
        return {
            "load_1m": self.one,
            "load_5m": self.five,
            "load_15m": self.fifteen,
            "pressure_percent": dict(self.pressure),
        }


def read_load(root: Root) -> Load:
    """The load now."""
    match = _AVERAGES.match(root.text("proc/loadavg") or "")
    one, five, fifteen = (float(value) for value in match.groups()) if match else (None, None, None)
    pressure = {
        name: float(found[1])
        for name in _RESOURCES
        if (found := _AVG10.search(root.text(f"proc/pressure/{name}") or ""))
    }
    return Load(one, five, fifteen, pressure)
