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


def test_without_the_module_it_is_named(tree: Callable[[str], Host]) -> None:
    assert "modprobe udmabuf" in str(Udmabuf().unavailable(tree("")))


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
