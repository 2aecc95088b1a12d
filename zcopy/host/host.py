"""The box as one value: what was read of it at the start of a run, and what is asked anew when it matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

from zcopy.host.clocks import Clock, read_clocks
from zcopy.host.cpu import Cpu, read_cpu
from zcopy.host.cpulist import cpus_text
from zcopy.host.devices import Device, read_devices
from zcopy.host.drivers import Driver, parameter, read_driver
from zcopy.host.files import Root
from zcopy.host.hugepages import HugePool, read_pools
from zcopy.host.kernel import Kernel, read_kernel
from zcopy.host.kfd import KfdNode, read_kfd
from zcopy.host.load import Load, read_load
from zcopy.host.machine import Machine, read_machine
from zcopy.host.memory import Memory, read_memory
from zcopy.host.quiet import (
    clock_warnings,
    load_warnings,
    memory_warnings,
    temperature_warnings,
    use_warnings,
)
from zcopy.host.sensors import Temperature, read_temperatures
from zcopy.host.users import Users, read_users
from zcopy.model import Json, Warning_

_ALWAYS_ASKED: Final = ("udmabuf",)  # offers buffers without a device of a bus


@dataclass(frozen=True)
class Host:
    """Facts about the box below `root`. Reading them starts no process and opens no device.

    `kernel`, `machine`, `cpu` and `memory` are as they were when the host was read; `clocks`, `devices`,
    `kfd` and `drivers` are read at first use and kept. `room`, `pools`, `load`, `temperatures`, `users`,
    `quiet_warnings` and `use_warnings` ask anew at each call. Nothing here raises for a missing or odd file:
    such a fact is None, or left out.
    """

    root: Root
    kernel: Kernel
    machine: Machine
    cpu: Cpu
    memory: Memory

    @staticmethod
    def read(root: Path = Path("/")) -> Host:
        """The box whose /proc, /sys, /dev and /etc stand below `root`."""
        below = Root(root)
        return Host(
            root=below,
            kernel=read_kernel(below),
            machine=read_machine(below),
            cpu=read_cpu(below),
            memory=read_memory(below),
        )

    @cached_property
    def clocks(self) -> tuple[Clock, ...]:
        """Who sets the clocks."""
        return read_clocks(self.root)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices whose buffers zcopy can touch."""
        return read_devices(self.root)

    @cached_property
    def kfd(self) -> tuple[KfdNode, ...]:
        """amdkfd's topology; a GPU is a node with `is_gpu`."""
        return read_kfd(self.root)

    @cached_property
    def drivers(self) -> tuple[Driver, ...]:
        """Fingerprints of the drivers behind `devices`, and of udmabuf, by name."""
        modules = {device.module_guess for device in self.devices} | {*_ALWAYS_ASKED}
        found = (self.driver(name) for name in sorted(filter(None, modules)))
        return tuple(driver for driver in found if driver is not None)

    def driver(self, name: str) -> Driver | None:
        """The fingerprint of one driver by module name; None when this kernel does not have it loaded."""
        return read_driver(self.root, name)

    def parameter(self, module: str, name: str) -> str | None:
        """A module's parameter as the kernel prints it: ``parameter("udmabuf", "size_limit_mb")``."""
        return parameter(self.root, module, name)

    def of_kind(self, kind: str) -> tuple[Device, ...]:
        """The devices of one kind, in the words of devices.py: drm-card, drm-render, accel, dma-heap …"""
        return tuple(device for device in self.devices if device.kind == kind)

    def nodes(self, device: str) -> tuple[str, ...]:
        """The nodes of a device by the name of its lock: for gpu0 its card and its render node."""
        return tuple(each.path for each in self.devices if each.lock == device)

    def users(self, devices: Iterable[str]) -> Users:
        """Who else holds nodes of these devices (names of locks) open now."""
        return read_users(self.root, [node for device in devices for node in self.nodes(device)])

    def load(self) -> Load:
        """The load now."""
        return read_load(self.root)

    def temperatures(self) -> tuple[Temperature, ...]:
        """The temperatures now."""
        return read_temperatures(self.root)

    def pools(self) -> tuple[HugePool, ...]:
        """The hugetlb pools now, smallest page first."""
        return read_pools(self.root)

    def room(self) -> tuple[int, str]:
        """Bytes that may be allocated now and the name of what limits them (`Memory.room`)."""
        return read_memory(self.root).room()

    def quiet_warnings(self) -> tuple[Warning_, ...]:
        """What makes the box unfit for measuring now; empty when it is quiet."""
        return tuple(
            chain(
                load_warnings(self.load(), self.cpu.count),
                clock_warnings(self.clocks),
                temperature_warnings(self.temperatures()),
                memory_warnings(read_memory(self.root)),
            )
        )

    def use_warnings(self, devices: Iterable[str]) -> tuple[Warning_, ...]:
        """Which of these devices (names of locks; cpu has no nodes) are in use by others now."""
        nodes = {device: self.nodes(device) for device in devices}
        return tuple(use_warnings(nodes, self.users(nodes)))

    def document(self) -> dict[str, Json]:
        """The facts a run carries: sizes in bytes, clocks in Hz, floats in degrees Celsius and percent."""
        return {
            "name": self.machine.name,
            "kernel": self.kernel.document(),
            "machine": self.machine.document(),
            "cpu": self.cpu.document(),
            "memory": self.memory.document(),
            "clocks": [clock.document() for clock in self.clocks],
            "devices": [device.document() for device in self.devices],
            "drivers": [driver.document() for driver in self.drivers],
            "load": self.load().document(),
            "temperatures": [each.document() for each in self.temperatures()],
        }

    def key(self, drivers: Iterable[str] = ()) -> dict[str, Json]:
        """What must be equal before two runs may be compared, as far as the box decides it.

        `drivers` are the modules behind the buffers and devices of the run; one that is absent is null.
        """
        found = {name: self.driver(name) for name in drivers}
        thp = self.memory.thp
        return {
            "kernel": self.kernel.release,
            "boot": list(self.kernel.cmdline),
            "machine": self.machine.model,
            "virtual": self.machine.virtual,
            "cpu": self.cpu.model,
            "cpu_count": self.cpu.count,
            "cpu_set": cpus_text(self.cpu.allowed),
            "cpu_max_hz": sorted(
                {clock.max_hz for clock in self.clocks if clock.kind == "cpu" and clock.max_hz}
            ),
            "governors": _governors(self.clocks),
            "thp": thp.enabled,
            "thp_shmem": thp.shmem_enabled,
            "thp_sizes": thp.document()["sizes"],
            "drivers": {name: driver.key() if driver else None for name, driver in found.items()},
        }


def _governors(clocks: Iterable[Clock]) -> dict[str, Json]:
    """``{"cpu": "performance", "dmc": "dmc_ondemand"}``; CPUs under several governors have them all."""
    found: dict[str, set[str]] = {}
    for clock in clocks:
        name = "cpu" if clock.kind == "cpu" else clock.name
        found.setdefault(name, set()).add(clock.governor or "unknown")
    return {name: "+".join(sorted(governors)) for name, governors in found.items()}
