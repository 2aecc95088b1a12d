"""The devices whose buffers zcopy can touch: DRM, accelerators, dma-heaps, udmabuf, V4L2 and their kin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from zcopy.host.access import Names, Node, read_names, read_node, remedy
from zcopy.host.drivers import module_name
from zcopy.host.engines import named
from zcopy.host.files import Root
from zcopy.host.kfd import read_kfd
from zcopy.model import Json


@dataclass(frozen=True, slots=True)
class _Class:
    """One kind of device: where sysfs lists it, under which names, and where its nodes are in /dev."""

    kind: str
    subsystem: str
    names: str
    folder: str = ""


_CLASSES: Final = (
    _Class("drm-card", "drm", r"card\d+", "dri/"),
    _Class("drm-render", "drm", r"renderD\d+", "dri/"),
    _Class("accel", "accel", r"accel\d+", "accel/"),
    _Class("kfd", "kfd", r"kfd"),
    _Class("dma-heap", "dma_heap", r".+", "dma_heap/"),
    _Class("udmabuf", "misc", r"udmabuf"),
    _Class("rknpu", "misc", r"rknpu"),
    _Class("rga", "misc", r"rga"),
    _Class("mali", "misc", r"mali\d+"),
    _Class("v4l2", "video4linux", r"video\d+"),
)
# Attributes of the parent device that say more about it: (file, key), sizes in bytes.
_TEXTS: Final = {"vbnv": "product", "product_name": "product", "fw_version": "firmware"}
_SIZES: Final = {
    "mem_info_vram_total": "vram_total_bytes",
    "mem_info_vram_used": "vram_used_bytes",
    "mem_info_gtt_total": "gtt_total_bytes",
    "mem_info_gtt_used": "gtt_used_bytes",
}


@dataclass(frozen=True, slots=True)
class Device:
    """One device node and what is behind it.

    `driver` is the bus driver sysfs names, `module` the kernel module it lives in (None when built in),
    `where` the bus address (``0000:c5:00.0``, ``fdab0000.npu``), `ids` the PCI ids or the first device-tree
    name. `node` is None when /dev does not have it. `facts` are the driver's own words about it. `location` is
    the path below /sys of what the node belongs to; `lock` names that GPU or NPU (``gpu0``), None where there is
    none: the lock to be taken by whoever measures with it.
    """

    kind: str
    path: str
    driver: str | None
    module: str | None
    where: str | None
    ids: str | None
    node: Node | None
    subsystem: str
    facts: Mapping[str, Json] = field(default_factory=dict)
    location: str | None = None
    lock: str | None = None

    @property
    def name(self) -> str:
        """The kernel's name: ``renderD128``."""
        return self.path.rpartition("/")[2]

    @property
    def module_guess(self) -> str | None:
        """The module, or what it would be called: a built-in platform driver has no link to its module."""
        return self.module or (self.driver.lower() if self.driver else None)

    @property
    def usable(self) -> bool:
        """Whether this process may open it for reading and writing."""
        return self.node is not None and self.node.open_

    @property
    def remedy(self) -> str | None:
        """What would let this user open it; None when he can."""
        return remedy(self.node, self.subsystem, self.name)

    def document(self) -> dict[str, Json]:
        return {
            "kind": self.kind,
            "path": self.path,
            "driver": self.driver,
            "module": self.module,
            "where": self.where,
            "ids": self.ids,
            "lock": self.lock,
            "node": self.node.document() if self.node else None,
            "facts": dict(self.facts),
        }


def read_devices(root: Root) -> tuple[Device, ...]:
    """Every device of the classes zcopy knows, in the order of the classes, then by number."""
    names = read_names(root)
    return named([device for each in _CLASSES for device in _of_class(root, each, names)])


def _of_class(root: Root, each: _Class, names: Names) -> Iterator[Device]:
    for name in root.names(f"sys/class/{each.subsystem}"):
        if re.fullmatch(each.names, name):
            yield _device(root, each, name, names)


def _device(root: Root, each: _Class, name: str, names: Names) -> Device:
    parent = f"sys/class/{each.subsystem}/{name}/device"
    path = f"dev/{each.folder}{name}"
    location = _location(root, parent)
    where = location and location.rpartition("/")[2]
    driven = _driven(root, parent)
    return Device(
        kind=each.kind,
        path=f"/{path}",
        driver=root.link(f"{driven}/driver"),
        module=root.link(f"{driven}/driver/module") or _module_of_virtual(root, where),
        where=where,
        ids=_ids(root, parent),
        node=read_node(root, path, names),
        subsystem=each.subsystem,
        facts=_facts(root, each, name, parent),
        location=location,
    )


def _driven(root: Root, parent: str) -> str:
    """What the device's own driver is bound to: where a virtio transport has the parent, the virtio device on it."""
    on_it = [name for name in root.names(parent) if re.fullmatch(r"virtio[0-9]+", name)]
    return f"{parent}/{on_it[0]}" if len(on_it) == 1 and root.link(f"{parent}/{on_it[0]}/driver") else parent


def _location(root: Root, parent: str) -> str | None:
    """``devices/pci0000:00/0000:00:08.1/0000:c5:00.0``."""
    if not root.exists(parent):
        return None
    top, real = (os.path.realpath(root.join(each)) for each in ("sys", parent))
    return os.path.relpath(real, top)


def _module_of_virtual(root: Root, where: str | None) -> str | None:
    """A software device such as vgem has no bus driver of its own, but is called like its module."""
    return where if where and module_name(where) == where and root.exists(f"sys/module/{where}") else None


def _ids(root: Root, parent: str) -> str | None:
    vendor, product = root.number(f"{parent}/vendor", 16), root.number(f"{parent}/device", 16)
    if vendor is not None and product is not None:
        return f"{vendor:04x}:{product:04x}"
    compatible = root.strings(f"{parent}/of_node/compatible")
    return compatible[0] if compatible else None


def _facts(root: Root, each: _Class, name: str, parent: str) -> dict[str, Json]:
    if each.kind == "kfd":
        return {"gpus": sum(node.is_gpu for node in read_kfd(root))}
    if each.kind == "v4l2":
        return _known([("product", root.line(f"sys/class/video4linux/{name}/name"))])
    if each.kind in ("drm-card", "accel"):
        texts = [(key, root.line(f"{parent}/{file}")) for file, key in _TEXTS.items()]
        return _known([*texts, *((key, root.number(f"{parent}/{file}")) for file, key in _SIZES.items())])
    return {}


def _known(facts: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    return {key: value for key, value in facts if value is not None}
