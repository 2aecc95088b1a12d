"""The memory limits of this process' control group and of all its parents, cgroup v2 and v1."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from zcopy.host.files import Root, integer, pairs
from zcopy.host.mounts import Mount, mounts
from zcopy.model import Json

_NO_LIMIT_V1: Final = 1 << 62  # v1 writes "no limit" as the largest multiple of the page size below 2^63
_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One group's limit in bytes, what is charged to it, and how much of that is cache it can drop.

    `file` is the limit's file in the file system, for messages.
    """

    file: str
    limit: int
    used: int
    reclaimable: int

    @property
    def headroom(self) -> int:
        """Bytes that can still be charged: inactive page cache makes room before the limit bites."""
        return max(self.limit - max(self.used - self.reclaimable, 0), 0)

    def document(self) -> dict[str, Json]:
        return {
            "file": self.file,
            "limit_bytes": self.limit,
            "used_bytes": self.used,
            "reclaimable_bytes": self.reclaimable,
        }


@dataclass(frozen=True, slots=True)
class _Version:
    """File names of one cgroup version; `inactive` is the key of memory.stat that counts droppable cache."""

    limits: tuple[str, ...]
    used: str
    inactive: str


# memory.high does not fail an allocation but throttles it to a crawl: for a measurement that is a limit too.
_V2: Final = _Version(("memory.max", "memory.high"), "memory.current", "inactive_file")
_V1: Final = _Version(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")


def memory_limits(root: Root) -> tuple[MemoryLimit, ...]:
    """Every memory limit that binds this process, innermost group first; empty when there is none."""
    paths = _paths(root.lines("proc/self/cgroup"))
    found: list[MemoryLimit] = []
    for mount in mounts(root):
        version, path = _of_mount(mount, paths)
        if version is not None and path is not None:
            for folder in _upwards(mount, path):
                found += _limits(root, folder, version)
    return tuple(found)


def _paths(lines: list[str]) -> dict[str, str]:
    """Controller to group path; the key of cgroup v2 is empty. Format: cgroups(7)."""
    found: dict[str, str] = {}
    for line in lines:
        parts = line.split(":", 2)
        if len(parts) == 3:
            found |= dict.fromkeys(parts[1].split(","), parts[2])
    return found


def _of_mount(mount: Mount, paths: dict[str, str]) -> tuple[_Version | None, str | None]:
    if mount.type == "cgroup2":
        return _V2, paths.get("")
    if mount.type == "cgroup" and "memory" in mount.options:
        return _V1, paths.get("memory")
    return None, None


def _upwards(mount: Mount, path: str) -> list[str]:
    """The folders of a group and its parents below the mount, innermost first.

    The mount may show only a subtree (`mount.inside`). A path with `..` lies outside this cgroup namespace:
    then only the mount's own top can be seen.
    """
    group = PurePosixPath("/", path)
    inside = PurePosixPath(mount.inside)
    below = group.relative_to(inside) if group.is_relative_to(inside) else PurePosixPath()
    parts = () if ".." in below.parts else below.parts[:_DEEPEST]
    top = mount.at.lstrip("/")
    return ["/".join((top, *parts[:count])) for count in range(len(parts), -1, -1)]


def _limits(root: Root, folder: str, version: _Version) -> list[MemoryLimit]:
    found: list[MemoryLimit] = []
    for name in version.limits:
        limit = root.number(f"{folder}/{name}")
        if limit is None or limit >= _NO_LIMIT_V1:  # "max" is no number
            continue
        used = root.number(f"{folder}/{version.used}") or 0
        stat = pairs(root.lines(f"{folder}/memory.stat"), " ")
        found.append(MemoryLimit(f"/{folder}/{name}", limit, used, integer(stat.get(version.inactive)) or 0))
    return found
