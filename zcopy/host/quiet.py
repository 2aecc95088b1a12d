"""Is the box quiet enough to measure on? Each thing that is not becomes a warning (docs/doctor.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from zcopy.host.clocks import Clock
from zcopy.host.cpulist import cpus_text
from zcopy.host.load import Load
from zcopy.host.memory import Memory
from zcopy.host.sensors import Temperature
from zcopy.host.users import Users, users_text
from zcopy.model import Warning_
from zcopy.units import size_text

# Half a task always, and a tenth of a task per CPU: on two CPUs 0.7, on 32 of them 3.7. A measurement that
# has just ended may still leave that much in the one-minute average.
LOAD_ALWAYS: Final = 0.5
LOAD_PER_CPU: Final = 0.1
PRESSURE_PERCENT: Final = {"cpu": 5.0, "io": 10.0, "memory": 1.0}
NEAR_LIMIT_CELSIUS: Final = 5.0
LOW_MEMORY_PART: Final = 10  # less than a tenth of the memory is left


def load_warnings(load: Load, cpus: int) -> Iterator[Warning_]:
    """Others that compute, or wait for CPU, disk or memory, while we measure."""
    allowed = LOAD_ALWAYS + LOAD_PER_CPU * cpus
    if load.one is not None and load.one > allowed:
        yield Warning_(
            "load",
            f"load average {load.one:.2f} on {cpus} CPUs (quiet: below {allowed:.1f}): others are at work",
        )
    for resource, percent in load.pressure.items():
        if percent > PRESSURE_PERCENT.get(resource, 100.0):
            yield Warning_(
                "pressure",
                f"tasks waited for {resource} in {percent:.0f} % of the last 10 s (/proc/pressure)",
            )


def clock_warnings(clocks: Sequence[Clock]) -> Iterator[Warning_]:
    """Clocks that follow the load: the first samples run slower than the last."""
    slow = [clock for clock in clocks if not clock.fastest and clock.governor is not None]
    cpus = [clock for clock in slow if clock.kind == "cpu"]
    if cpus:
        governors = ", ".join(sorted({str(clock.governor) for clock in cpus}))
        which = cpus_text(cpu for clock in cpus for cpu in clock.cpus)
        yield Warning_(
            "governor",
            f"CPU governor is {governors} on CPUs {which}, not performance "
            "(echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor)",
        )
    for clock in slow:
        if clock.kind == "devfreq":
            yield Warning_(
                "governor",
                f"{clock.name} is under governor {clock.governor}, not performance "
                f"(echo performance | sudo tee {clock.path})",
            )


def temperature_warnings(temperatures: Sequence[Temperature]) -> Iterator[Warning_]:
    """Sensors within 5 degrees of where the box slows down."""
    for each in temperatures:
        if each.limit is not None and each.celsius > each.limit - NEAR_LIMIT_CELSIUS:
            yield Warning_(
                "temperature",
                f"{each.name} is at {each.celsius:.0f} °C, slows from {each.limit:.0f} °C: let it cool",
            )


def memory_warnings(memory: Memory) -> Iterator[Warning_]:
    """Little memory left: page reclaim would run beside the measurement."""
    room, name = memory.room()
    if memory.total is not None and room < memory.total // LOW_MEMORY_PART:
        yield Warning_(
            "memory", f"only {size_text(room)} of {size_text(memory.total)} may be allocated (limit: {name})"
        )


def use_warnings(nodes: Mapping[str, Collection[str]], users: Users) -> Iterator[Warning_]:
    """Devices (each with its nodes) that other processes have open: what they run there is measured too."""
    blind = f"; {users.hidden} more processes could only be looked into by root" if users.hidden else ""
    for device, paths in nodes.items():
        if others := users.of(paths):
            yield Warning_(
                "device-in-use",
                f"{device} is held open by {users_text(others)}: stop that, or measure when it is idle{blind}",
            )
