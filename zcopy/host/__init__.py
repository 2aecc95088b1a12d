"""Facts about the box, read from its /proc, /sys and /dev: `Host.read()`."""

from __future__ import annotations

from zcopy.host.access import Node
from zcopy.host.clocks import Clock
from zcopy.host.cpu import Cache, Cluster, Cpu
from zcopy.host.cpulist import cpus_text, parse_cpus
from zcopy.host.devices import Device
from zcopy.host.drivers import Driver
from zcopy.host.host import Host
from zcopy.host.hugepages import HugePool, Thp
from zcopy.host.kernel import Kernel
from zcopy.host.load import Load
from zcopy.host.machine import Machine
from zcopy.host.memory import Memory
from zcopy.host.mounts import filesystem
from zcopy.host.sensors import Temperature
from zcopy.host.users import User, Users

__all__ = [
    "Cache",
    "Clock",
    "Cluster",
    "Cpu",
    "Device",
    "Driver",
    "Host",
    "HugePool",
    "Kernel",
    "Load",
    "Machine",
    "Memory",
    "Node",
    "Temperature",
    "Thp",
    "User",
    "Users",
    "cpus_text",
    "filesystem",
    "parse_cpus",
]
