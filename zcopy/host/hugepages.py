"""Huge pages: the reserved pools (hugetlb), and the settings of transparent ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zcopy.host.files import Root, selected
from zcopy.model import Json

_POOLS: Final = "sys/kernel/mm/hugepages"
_THP: Final = "sys/kernel/mm/transparent_hugepage"
_FOLDER: Final = re.compile(r"hugepages-(\d{1,9})kB")


@dataclass(frozen=True, slots=True)
class HugePool:
    """One hugetlb pool: its page size in bytes and its pages. `overcommit` more may be added on demand."""

    size: int
    total: int
    free: int
    reserved: int
    overcommit: int

    @property
    def available(self) -> int:
        """Pages that a new mapping can have from the pool: those free and not promised to another."""
        return max(self.free - self.reserved, 0)

    def document(self) -> dict[str, Json]:
        return {
            "page_bytes": self.size,
            "total": self.total,
            "free": self.free,
            "reserved": self.reserved,
            "overcommit": self.overcommit,
        }


@dataclass(frozen=True, slots=True)
class ThpSize:
    """One size of multi-size THP (bytes) with what anonymous and shared memory may do with it."""

    size: int
    enabled: str | None
    shmem_enabled: str | None


@dataclass(frozen=True, slots=True)
class Thp:
    """Transparent huge pages; `shmem_enabled` is what memfds follow. All None: a kernel without them."""

    enabled: str | None
    shmem_enabled: str | None
    defrag: str | None
    pmd_size: int | None
    sizes: tuple[ThpSize, ...]

    def document(self) -> dict[str, Json]:
        return {
            "enabled": self.enabled,
            "shmem_enabled": self.shmem_enabled,
            "defrag": self.defrag,
            "pmd_bytes": self.pmd_size,
            "sizes": {
                str(each.size): {"enabled": each.enabled, "shmem_enabled": each.shmem_enabled}
                for each in self.sizes
                if {each.enabled, each.shmem_enabled} - {"never", None}
            },
        }


def read_pools(root: Root) -> tuple[HugePool, ...]:
    """The hugetlb pools, smallest page first."""
    return tuple(
        HugePool(
            size=size,
            total=root.number(f"{folder}/nr_hugepages") or 0,
            free=root.number(f"{folder}/free_hugepages") or 0,
            reserved=root.number(f"{folder}/resv_hugepages") or 0,
            overcommit=_overcommit(root, folder),
        )
        for size, folder in _sized(root, _POOLS)
    )


def _overcommit(root: Root, folder: str) -> int:
    """Surplus pages are those that were added on demand already."""
    most = root.number(f"{folder}/nr_overcommit_hugepages") or 0
    return max(most - (root.number(f"{folder}/surplus_hugepages") or 0), 0)


def read_thp(root: Root) -> Thp:
    """The transparent huge page settings."""
    return Thp(
        enabled=selected(root.line(f"{_THP}/enabled")),
        shmem_enabled=selected(root.line(f"{_THP}/shmem_enabled")),
        defrag=selected(root.line(f"{_THP}/defrag")),
        pmd_size=root.number(f"{_THP}/hpage_pmd_size"),
        sizes=tuple(
            ThpSize(
                size,
                selected(root.line(f"{folder}/enabled")),
                selected(root.line(f"{folder}/shmem_enabled")),
            )
            for size, folder in _sized(root, _THP)
        ),
    )


def _sized(root: Root, folder: str) -> list[tuple[int, str]]:
    matches = [match for name in root.names(folder) if (match := _FOLDER.fullmatch(name))]
    return [(int(match[1]) << 10, f"{folder}/{match[0]}") for match in matches]
