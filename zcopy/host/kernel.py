"""Which kernel runs, with the words of its command line that change what zcopy measures."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from zcopy.host.elf import note_build_id
from zcopy.host.files import LARGE, Root, printable
from zcopy.model import Json

# Only these words are kept: the rest of a command line is nobody's business (UUIDs, addresses, secrets).
_WORDS: Final = frozenset(
    (
        "amd_iommu", "amd_pstate", "cma", "coherent_pool", "default_hugepagesz", "hugepages", "hugepagesz",
        "idle", "init_on_alloc", "init_on_free", "intel_iommu", "intel_pstate", "iommu", "irqaffinity",
        "isolcpus", "maxcpus", "mem", "mitigations", "nohz_full", "nosmt", "numa", "preempt", "rcu_nocbs",
        "thp_anon", "thp_shmem", "transparent_hugepage", "transparent_hugepage_shmem",
        "transparent_hugepage_tmpfs",
    )
)  # fmt: skip
_MODULES: Final = ("amdgpu.", "amdttm.", "amdxdna.", "iommu.", "processor.", "ttm.", "udmabuf.")
_AT_PAGESZ: Final = 6


@dataclass(frozen=True, slots=True)
class Kernel:
    """`release` as uname -r, `arch` as uname -m, `build_id` of the kernel image, `page_size` in bytes."""

    release: str | None
    arch: str | None
    version: str | None
    page_size: int | None
    build_id: str | None
    cmdline: tuple[str, ...]

    def document(self) -> dict[str, Json]:
        return {
            "release": self.release,
            "arch": self.arch,
            "version": self.version,
            "page_bytes": self.page_size,
            "build_id": self.build_id,
            "cmdline": list(self.cmdline),
        }


def read_kernel(root: Root) -> Kernel:
    """The kernel facts below `root`."""
    return Kernel(
        release=root.line("proc/sys/kernel/osrelease"),
        arch=root.line("proc/sys/kernel/arch") or _arch_of_cpuinfo(root),
        version=root.line("proc/sys/kernel/version"),
        page_size=_page_size(root.raw("proc/self/auxv")),
        build_id=note_build_id(root.raw("sys/kernel/notes", LARGE) or b""),
        cmdline=_words(root.text("proc/cmdline") or ""),
    )


def _words(cmdline: str) -> tuple[str, ...]:
    words = [printable(word) for word in cmdline.split()]
    return tuple(word for word in words if word.split("=", 1)[0] in _WORDS or word.startswith(_MODULES))


def _arch_of_cpuinfo(root: Root) -> str | None:
    """Kernels before 6.1 have no proc/sys/kernel/arch; their cpuinfo still differs by architecture."""
    cpuinfo = root.text("proc/cpuinfo") or ""
    if "CPU implementer" in cpuinfo:
        return "aarch64"
    return "x86_64" if "vendor_id" in cpuinfo else None


def _page_size(auxv: bytes | None) -> int | None:
    usable = (auxv or b"")[: len(auxv or b"") // 16 * 16]
    return next((value for key, value in struct.iter_unpack("<QQ", usable) if key == _AT_PAGESZ), None)
