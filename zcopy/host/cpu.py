"""The processor: model, which CPUs are there and allowed, clusters of unlike cores, caches, ISA."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zcopy.host.arm_parts import core_name
from zcopy.host.cpulist import cpus_or_empty, cpus_text
from zcopy.host.files import LARGE, PAGE, Root, integer, pairs, printable
from zcopy.model import Json

_CPU: Final = "sys/devices/system/cpu"
# The features that decide which of zcopy's kernels can run, or what a copy and a cache flush cost.
_ISA: Final = (
    "sse4_1", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni", "erms", "fsrm",
    "clflushopt", "clwb", "movdir64b",
    "asimd", "asimddp", "i8mm", "bf16", "sve", "sve2", "dcpop", "dcpodp", "mops",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cluster:
    """CPUs that are alike. `capacity` is the scheduler's (1024 = fastest), `max_hz` cpufreq's ceiling."""

    name: str | None
    cpus: tuple[int, ...]
    capacity: int | None
    max_hz: int | None

    def document(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "cpus": cpus_text(self.cpus),
            "capacity": self.capacity,
            "max_hz": self.max_hz,
        }


@dataclass(frozen=True, slots=True)
class Cache:
    """One cache and the CPUs that share it; `kind` is data, instruction or unified, sizes are in bytes."""

    level: int
    kind: str
    size: int
    line: int | None
    cpus: tuple[int, ...]

    def document(self) -> dict[str, Json]:
        return {
            "level": self.level,
            "kind": self.kind,
            "bytes": self.size,
            "line_bytes": self.line,
            "cpus": cpus_text(self.cpus),
        }


@dataclass(frozen=True, slots=True)
class Cpu:
    """`online` are the box's CPUs, `allowed` those this process may run on (affinity and cpuset).

    `caches` are those of the first CPU of each cluster; `flags` every feature the kernel lists.
    """

    model: str | None
    online: tuple[int, ...]
    allowed: tuple[int, ...]
    clusters: tuple[Cluster, ...]
    caches: tuple[Cache, ...]
    flags: frozenset[str]

    @property
    def count(self) -> int:
        """How many CPUs are online; at least 1."""
        return max(len(self.online), 1)

    @property
    def isa(self) -> tuple[str, ...]:
        """The features among `flags` that matter to zcopy."""
        return tuple(name for name in _ISA if name in self.flags)

    @property
    def last_level_bytes(self) -> int | None:
        """Size of the largest data or unified cache: what a working set must exceed to reach the DRAM."""
        return max((cache.size for cache in self.caches if cache.kind != "instruction"), default=None)

    def document(self) -> dict[str, Json]:
        return {
            "model": self.model,
            "count": self.count,
            "online": cpus_text(self.online),
            "allowed": cpus_text(self.allowed),
            "clusters": [cluster.document() for cluster in self.clusters],
            "caches": [cache.document() for cache in self.caches],
            "isa": list(self.isa),
        }


def read_cpu(root: Root) -> Cpu:
    """The CPU facts below `root`."""
    blocks = _cpuinfo(root)
    first = blocks[0] if blocks else {}
    cores = _core_names(root, blocks)
    online = cpus_or_empty(root.line(f"{_CPU}/online")) or tuple(sorted(cores))
    clusters = _clusters(root, online, cores)
    return Cpu(
        model=_model(first, clusters),
        online=online,
        allowed=cpus_or_empty(_status(root).get("Cpus_allowed_list")) or online,
        clusters=clusters,
        caches=_caches(root, [cluster.cpus[0] for cluster in clusters]),
        flags=frozenset((first.get("flags") or first.get("Features") or "").split()),
    )


def _status(root: Root) -> dict[str, str]:
    return pairs(root.lines("proc/self/status", PAGE))


def _cpuinfo(root: Root) -> list[dict[str, str]]:
    """The blocks of /proc/cpuinfo, one per CPU: all on Arm, only the first elsewhere.

    On x86 the kernel asks every CPU for its clock as its block is read, and the first block says it all.
    """
    start = root.text("proc/cpuinfo", PAGE) or ""
    if "CPU implementer" not in start:
        return [block] if (block := pairs(start.partition("\n\n")[0].splitlines())) else []
    whole = root.text("proc/cpuinfo", LARGE) or ""
    blocks = [pairs(block.splitlines()) for block in whole.split("\n\n")]
    return [block for block in blocks if "processor" in block]


def _core_names(root: Root, blocks: Sequence[Mapping[str, str]]) -> dict[int, str]:
    """CPU number to core name where the box tells its cores apart: Arm parts, Intel's hybrid lists."""
    names = dict.fromkeys(cpus_or_empty(root.line("sys/devices/cpu_core/cpus")), "P-core")
    names |= dict.fromkeys(cpus_or_empty(root.line("sys/devices/cpu_atom/cpus")), "E-core")
    for block in blocks:
        cpu = integer(block.get("processor"))
        implementer = integer(block.get("CPU implementer"), 16)
        part = integer(block.get("CPU part"), 16)
        if cpu is not None and implementer is not None and part is not None:
            names[cpu] = core_name(implementer, part)
    return names


def _clusters(root: Root, online: Sequence[int], names: Mapping[int, str]) -> tuple[Cluster, ...]:
    alike: dict[tuple[str | None, int | None, int | None], list[int]] = {}
    for cpu in online:
        folder = f"{_CPU}/cpu{cpu}"
        khz = root.number(f"{folder}/cpufreq/cpuinfo_max_freq")
        kind = (names.get(cpu), root.number(f"{folder}/cpu_capacity"), khz * 1000 if khz else None)
        alike.setdefault(kind, []).append(cpu)
    return tuple(Cluster(kind[0], tuple(cpus), *kind[1:]) for kind, cpus in alike.items())


def _model(first: Mapping[str, str], clusters: Sequence[Cluster]) -> str | None:
    named = first.get("model name")
    if named:
        return printable(named)
    counts: Counter[str] = Counter()
    for cluster in clusters:
        if cluster.name:
            counts[cluster.name] += len(cluster.cpus)
    return " + ".join(f"{count} x {name}" for name, count in counts.items()) or None


def _caches(root: Root, cpus: Sequence[int]) -> tuple[Cache, ...]:
    found: list[Cache] = []
    for cpu in cpus:
        folder = f"{_CPU}/cpu{cpu}/cache"
        for index in root.names(folder):
            cache = _cache(root, f"{folder}/{index}") if index.startswith("index") else None
            if cache is not None and cache not in found:
                found.append(cache)
    return tuple(found)


def _cache(root: Root, folder: str) -> Cache | None:
    level, size = root.number(f"{folder}/level"), _kib(root.line(f"{folder}/size"))
    if level is None or size is None:
        return None
    return Cache(
        level=level,
        kind=(root.line(f"{folder}/type") or "unified").lower(),
        size=size,
        line=root.number(f"{folder}/coherency_line_size"),
        cpus=cpus_or_empty(root.line(f"{folder}/shared_cpu_list")),
    )


def _kib(text: str | None) -> int | None:
    match = re.fullmatch(r"(\d{1,12})([KM]?)", text or "")
    return int(match[1]) << {"": 0, "K": 10, "M": 20}[match[2]] if match else None
