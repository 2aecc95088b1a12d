"""Kinds behind a device node: what is said when it is not there, not open, or says no."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zcopy.buffers import registry
from zcopy.buffers.base import Buffer
from zcopy.buffers.dmaheap import DmaHeap
from zcopy.buffers.drm import DrmDumb
from zcopy.buffers.udmabuf import Udmabuf
from zcopy.errors import RefusedError
from zcopy.host import Host
from zcopy.native import fds
from zcopy.units import MIB

RKNPU = ("rknpu:cacheable", "rknpu:wc", "rknpu:device", "rknpu:sram")
NODES = {"udmabuf": "/dev/udmabuf", "dma-heap:system": "/dev/dma_heap/system", "drm:card7": "/dev/dri/card7"}


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_another_group_names_the_group(
    name: str, everything: Host, stranger: Callable[[Host, str], Host]
) -> None:
    reason = registry.find(name, everything).unavailable(stranger(everything, "render"))
    assert reason is not None
    assert reason.startswith(f"{NODES[name]} is 06")
    assert "root:render" in reason
    if name != "dma-heap:system":  # whose mode gives the group nothing
        assert "usermod -aG render USER" in reason


def test_a_node_that_no_group_opens_names_the_udev_rule(
    everything: Host, stranger: Callable[[Host, str], Host]
) -> None:
    reason = registry.find("dma-heap:system", everything).unavailable(stranger(everything, "root"))
    assert reason is not None
    assert reason.startswith("/dev/dma_heap/system is 0600 root:root: needs root, or a udev rule: ")
    assert 'KERNEL=="system"' in reason


def test_a_device_without_a_node_is_said(everything: Host) -> None:
    Path(everything.root.join("dev/udmabuf")).unlink()
    reason = Udmabuf().unavailable(Host.read(Path(everything.root.join(""))))
    assert reason == "/dev/udmabuf: no device node here (a container must be given it)"


ABSENT = {
    "udmabuf": ("/dev/udmabuf", "udmabuf", "CONFIG_UDMABUF"),
    "dma-heap:system": ("/dev/dma_heap", "system_heap", "CONFIG_DMABUF_HEAPS_SYSTEM"),
    "drm:card0": ("/dev/dri", "vgem", "CONFIG_DRM_VGEM"),
    "drm:card3": ("/dev/dri", "vgem", "CONFIG_DRM_VGEM"),
}
RELEASE = "proc/sys/kernel/osrelease = 7.3.0\n"
LISTED = "{}== lib/modules/7.3.0/modules.dep\nkernel/drivers/{}.ko.xz: kernel/drivers/other.ko.xz\n==\n"


@pytest.mark.parametrize("name", ABSENT)
def test_what_would_bring_a_kind_that_is_not_here(name: str, tree: Callable[..., Host]) -> None:
    """Which modules the kernel has decides; in a container that cannot be seen."""
    node, module, option = ABSENT[name]
    boxes = {
        RELEASE: f"the kernel needs {option} (where that is a module: as root, modprobe {module})",
        LISTED.format(RELEASE, module.replace("_", "-")): f"as root, modprobe {module}",
        LISTED.format(RELEASE, "dma"): f"this kernel was built without {module} ({option})",
    }
    for number, (box, remedy) in enumerate(boxes.items()):
        host = tree(box, f"box{number}")
        reason = registry.find(name, host).unavailable(host)
        assert reason is not None
        assert reason.startswith(f"this box has no {node}: ")
        assert reason.endswith(f": {remedy}")


def test_udmabufs_own_limit_is_known(everything: Host) -> None:
    assert Udmabuf().limit(everything) == (64 * MIB, "udmabuf's size_limit_mb is 64")


def test_without_the_parameter_there_is_no_limit(tree: Callable[[str], Host]) -> None:
    assert Udmabuf().limit(tree("")) is None


def test_the_modules_behind_a_kind(everything: Host) -> None:
    named = {kind.name: kind.drivers() for kind in registry.kinds(everything)}
    assert named["memfd"] == ()
    assert named["udmabuf"] == ("udmabuf",)
    assert named["dma-heap:system"] == ("system_heap",)
    assert named["drm:card7"] == ("vgem",)


def test_a_card_occupies_the_gpu_or_npu_behind_it(tree: Callable[[str], Host]) -> None:
    host = tree(
        "sys/class/drm/card1/device -> ../../../devices/pci0000:00/0000:c5:00.0\n"
        "sys/devices/pci0000:00/0000:c5:00.0/driver -> ../../../bus/pci/drivers/amdgpu\n"
        "sys/class/drm/card2/device -> ../../../devices/platform/fdab0000.npu\n"
        "sys/devices/platform/fdab0000.npu/driver -> ../../../bus/platform/drivers/RKNPU\n"
        "sys/class/dma_heap/system/dev = 250:0\n"
    )
    named = {kind.name: kind.devices(host) for kind in registry.kinds(host)}
    assert {name: devices for name, devices in named.items() if devices} == {
        "drm:card1": ("gpu0",),
        "drm:card2": ("npu0",),
        **dict.fromkeys(RKNPU, ("npu0",)),
    }


def test_a_card_without_hardware_or_that_is_not_here_occupies_nothing(everything: Host) -> None:
    for name in ("drm:card7", "drm:card99"):
        assert registry.find(name, everything).devices(everything) == ()


KINDS: dict[str, Callable[[str], Buffer]] = {
    "udmabuf": lambda _: Udmabuf(),
    "dma-heap:null": DmaHeap,
    "drm:null": DrmDumb,
}


@pytest.fixture(params=list(KINDS))
def pointed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Buffer]:
    """A kind whose device node is another file."""

    def at(path: str) -> Buffer:
        kind = KINDS[request.param]("null")
        if isinstance(kind, Udmabuf):
            monkeypatch.setattr("zcopy.buffers.udmabuf._NODE", path)
        else:
            monkeypatch.setattr(kind, "_node", path)
        return kind

    return at


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("path", "reason"), [("/dev/null", "ENOTTY"), ("/nonexistent", "ENOENT"), ("/proc", "EISDIR")]
)
def test_what_the_system_says_is_told(pointed: Callable[[str], Buffer], path: str, reason: str) -> None:
    kind = pointed(path)
    with pytest.raises(RefusedError) as caught:
        kind.allocate(8192, "zcopy-test")
    assert caught.value.message.startswith(kind.name)
    assert "8 KiB" in caught.value.message
    assert caught.value.message.endswith(f"({reason})")


@pytest.fixture
def unmappable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Devices that give out a descriptor which then cannot be mapped."""

    def one(*_: int) -> int:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    monkeypatch.setattr(fds, "udmabuf", one)
    monkeypatch.setattr(fds, "dma_heap", one)
    monkeypatch.setattr(fds, "drm_dumb", lambda card, size: (one(card), size))
    yield


@pytest.mark.usefixtures("nothing_left", "unmappable")
def test_a_buffer_that_cannot_be_mapped_is_given_back(pointed: Callable[[str], Buffer]) -> None:
    with pytest.raises(RefusedError, match="EACCES"):
        pointed("/dev/null").allocate(8192, "zcopy-test")


def test_a_child_does_not_inherit_a_region() -> None:
    from zcopy.buffers.memfd import Memfd

    with Memfd().allocate(4096, "zcopy-inherit") as region:
        listed = subprocess.run(
            ["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, close_fds=False
        )
        assert region.fd >= 0
    assert "zcopy-inherit" not in listed.stdout
