"""Which machine this is: its maker's name for it, its SoC, and whether it is a virtual one or a container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcopy.host.files import Root, pairs
from zcopy.model import Json

_VENDORS: Final = {
    "qemu": "qemu",
    "kvm": "kvm",
    "vmware": "vmware",
    "virtualbox": "virtualbox",
    "xen": "xen",
    "microsoft corporation virtual machine": "hyper-v",
    "amazon ec2": "kvm",
    "google compute engine": "kvm",
}
_UNSET: Final = ("to be filled by o.e.m.", "system product name", "default string", "none")


@dataclass(frozen=True, slots=True)
class Machine:
    """`name` is the host's, `model` its maker's, `soc` the most general device-tree name
    (``rockchip,rk3588``).

    `virtual` names the hypervisor ("unknown" where only its presence shows), `container` the container
    manager; both are None on bare metal.
    """

    name: str | None
    model: str | None
    soc: str | None
    virtual: str | None
    container: str | None

    def document(self) -> dict[str, Json]:
        return {"model": self.model, "soc": self.soc, "virtual": self.virtual, "container": self.container}


def read_machine(root: Root) -> Machine:
    """The machine facts below `root`."""
    compatible = root.strings("proc/device-tree/compatible")
    return Machine(
        name=root.line("proc/sys/kernel/hostname"),
        model=root.line("proc/device-tree/model") or _dmi_model(root),
        soc=compatible[-1] if compatible else None,
        virtual=_virtual(root),
        container=_container(root),
    )


def _dmi_model(root: Root) -> str | None:
    words = (root.line("sys/class/dmi/id/sys_vendor"), root.line("sys/class/dmi/id/product_name"))
    return " ".join(word for word in words if word and word.lower() not in _UNSET) or None


def _virtual(root: Root) -> str | None:
    dmi = f"{_dmi_model(root) or ''} {root.line('sys/class/dmi/id/bios_vendor') or ''}".lower()
    named = next((name for mark, name in _VENDORS.items() if mark in dmi), None)
    named = named or root.line("sys/hypervisor/type")
    named = named or next(iter(root.strings("proc/device-tree/hypervisor/compatible")), None)
    if named:
        return named
    cpu = pairs((root.text("proc/cpuinfo") or "").splitlines())
    return "unknown" if "hypervisor" in cpu.get("flags", "").split() else None


def _container(root: Root) -> str | None:
    if root.exists("run/.containerenv"):
        return "podman"
    if root.exists(".dockerenv"):
        return "docker"
    return root.line("run/systemd/container")
