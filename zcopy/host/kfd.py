"""The nodes of amdkfd's topology: /dev/kfd exists once amdgpu is loaded, only a node with SIMDs is a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcopy.host.files import Root, integer, pairs
from zcopy.model import Json

_NODES: Final = "sys/class/kfd/kfd/topology/nodes"


@dataclass(frozen=True, slots=True)
class KfdNode:
    """One topology node: a CPU (`simds` 0) or a GPU. `gfx` is like ``gfx1151``, `render_minor` 128."""

    index: int
    simds: int
    cpu_cores: int
    gfx: str | None
    render_minor: int | None

    @property
    def is_gpu(self) -> bool:
        return self.simds > 0

    def document(self) -> dict[str, Json]:
        return {
            "index": self.index,
            "simd_count": self.simds,
            "cpu_cores": self.cpu_cores,
            "gfx": self.gfx,
            "render_minor": self.render_minor,
        }


def read_kfd(root: Root) -> tuple[KfdNode, ...]:
    """The topology, CPU nodes included; empty when amdkfd is not there."""
    return tuple(_node(root, name) for name in root.names(_NODES) if name.isdecimal())


def _node(root: Root, name: str) -> KfdNode:
    facts = pairs(root.lines(f"{_NODES}/{name}/properties"), " ")
    return KfdNode(
        index=int(name[:9]),
        simds=integer(facts.get("simd_count")) or 0,
        cpu_cores=integer(facts.get("cpu_cores_count")) or 0,
        gfx=_gfx(integer(facts.get("gfx_target_version")) or 0),
        render_minor=integer(facts.get("drm_render_minor")) or None,
    )


def _gfx(version: int) -> str | None:
    """110501 is gfx1151: major * 10000 + minor * 100 + stepping, the last two in hex."""
    if version <= 0:
        return None
    major, rest = divmod(version, 10000)
    return f"gfx{major}{rest // 100:x}{rest % 100:x}"
