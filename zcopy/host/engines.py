"""Which GPU or NPU is behind a device node: gpu0, npu0 … are the names of their locks (docs/doctor.md, devices)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zcopy.host.devices import Device

_GPU: Final = "gpu"
_NPU: Final = "npu"
_KINDS: Final = {"drm-card": _GPU, "drm-render": _GPU, "mali": _GPU, "accel": _NPU, "rknpu": _NPU}
_DISPLAY: Final = "drm-card"  # what is only this kind of node shows pictures and computes nothing
_NPU_MODULES: Final = ("rknpu",)  # NPUs whose nodes are those of a DRM card
# vgem and vkms hang on a platform device that no driver is bound to, in later kernels on the faux bus.
_UNBOUND: Final = (None, "faux_driver")


def named(devices: Sequence[Device]) -> tuple[Device, ...]:
    """The devices, each with the lock of the GPU or NPU behind it; None where there is no such hardware.

    All nodes of one piece of hardware share its name. Names count from 0 in the order of the hardware's paths
    in /sys/devices, GPUs that compute before cards that only show pictures: on one box always the same.
    """
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for sort, nodes in _hardware(devices):
        names.update((node.path, f"{sort}{counts[sort]}") for node in nodes)
        counts[sort] += 1
    return tuple(replace(device, lock=names.get(device.path)) for device in devices)


def _hardware(devices: Iterable[Device]) -> list[tuple[str, list[Device]]]:
    """Each piece of hardware, as its sort and its nodes, in the order in which it is counted."""
    found: dict[tuple[str, str], list[Device]] = {}
    for device in devices:
        if sort := _sort(device):
            found.setdefault((sort, device.location or device.path), []).append(device)
    order = sorted(found, key=lambda key: (_only_shows(found[key]), key[1]))
    return [(key[0], found[key]) for key in order]


def _sort(device: Device) -> str | None:
    if device.subsystem == "drm" and device.driver in _UNBOUND:
        return None
    return _NPU if device.module_guess in _NPU_MODULES else _KINDS.get(device.kind)


def _only_shows(nodes: Iterable[Device]) -> bool:
    return all(node.kind == _DISPLAY for node in nodes)
