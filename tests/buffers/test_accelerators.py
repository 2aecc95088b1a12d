"""Kinds of accelerators. There is no such device here: boxes are described, drivers simulated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from zcopy.native._zc import ffi

from zcopy.buffers import registry
from zcopy.buffers.device import DeviceBuffer
from zcopy.buffers.strict import refuse_strict
from zcopy.errors import MeasurementError, RefusedError
from zcopy.host import Host
from zcopy.model import Outcome
from zcopy.native import device as native
from zcopy.native import fds
from zcopy.native.calls import NativeError
from zcopy.probes.fill.arm import FillArm
from zcopy.probes.fill.params import Case

HOSTS = Path(__file__).parents[1] / "hosts"
EFAULT, ENOTTY = 14, 25
# name → how it is mapped
RKNPU = {
    "rknpu:cacheable": "cached",
    "rknpu:wc": "write-combine",
    "rknpu:device": "uncached",
    "rknpu:sram": "cached",
}
AMD = {
    "amdxdna": "cached",
    "amdgpu:gtt": "cached",
    "amdgpu:gtt-uswc": "write-combine",
    "amdgpu:vram": "write-combine",
}
KINDS = {**RKNPU, **AMD, "rocket": "cached"}
ROCKET = """
sys/class/accel/accel0/device -> ../../../devices/platform/fdab0000.npu
sys/devices/platform/fdab0000.npu/driver -> ../../../bus/platform/drivers/rocket
"""


@pytest.fixture
def rk3588(tree: Callable[..., Host]) -> Host:
    return tree((HOSTS / "rk3588.box").read_text(), "rk3588")


def kind(name: str, host: Host) -> DeviceBuffer:
    found = registry.find(name, host)
    assert isinstance(found, DeviceBuffer)
    return found


@pytest.fixture
def halo(tree: Callable[..., Host]) -> Host:
    return tree((HOSTS / "strix-halo.box").read_text(), "strix-halo")


@pytest.fixture
def rocket(tree: Callable[..., Host]) -> Host:
    return tree(ROCKET, "rocket")


@pytest.mark.parametrize(
    ("name", "node", "lock"),
    [
        ("amdxdna", "/dev/accel/accel0", "npu0"),
        *((name, "/dev/dri/renderD128", "gpu0") for name in AMD if name != "amdxdna"),
    ],
)
def test_the_devices_of_an_amd_box_are_behind_the_kinds(name: str, node: str, lock: str, halo: Host) -> None:
    found = kind(name, halo)
    assert (found.node, found.devices(halo)) == (node, (lock,))


def test_the_mainline_driver_of_a_rockchip_box_is_behind_its_kind(rocket: Host) -> None:
    found = kind("rocket", rocket)
    assert (found.node, found.devices(rocket)) == ("/dev/accel/accel0", ("npu0",))
    assert found.limit(rocket) == ((1 << 32) - 4096, "rocket's sizes have 32 bits")


def test_what_a_gpu_has_is_the_limit_of_its_kinds(halo: Host) -> None:
    (card,) = [each for each in halo.of_kind("drm-card") if each.module_guess == "amdgpu"]
    for name, memory in (("amdgpu:vram", "vram"), ("amdgpu:gtt", "gtt"), ("amdgpu:gtt-uswc", "gtt")):
        assert kind(name, halo).limit(halo) == (
            card.facts[f"{memory}_total_bytes"],
            f"the GPU's {memory.upper()}",
        )


@pytest.mark.parametrize("name", KINDS)
def test_a_bare_box_has_the_kind_and_says_why_not(name: str, tree: Callable[[str], Host]) -> None:
    host = tree("")
    reason = kind(name, host).unavailable(host)
    assert str(reason).startswith(f"this box has no device of {kind(name, host).driver}: that takes ")
    assert "CONFIG_" in str(reason)
    assert kind(name, host).devices(host) == ()
    assert (kind(name, host).limit(host) is None) == (name != "rocket")


@pytest.mark.parametrize("name", KINDS)
def test_how_the_driver_maps_it_is_declared(name: str, tree: Callable[[str], Host]) -> None:
    host = tree("")
    assert kind(name, host).declared(host) == KINDS[name]


@pytest.mark.parametrize("name", RKNPU)
def test_the_npu_of_a_rockchip_box_is_behind_the_kind(name: str, rk3588: Host) -> None:
    found = kind(name, rk3588)
    assert found.node == "/dev/dri/renderD129"
    assert (found.devices(rk3588), found.drivers()) == (("npu0",), ("rknpu",))


def test_the_misc_flavour_is_told_apart(tree: Callable[[str], Host]) -> None:
    host = tree("sys/class/misc/rknpu/dev = 10:120\ndev/rknpu mode 0666\n")
    reason = str(kind("rknpu:wc", host).unavailable(host))
    assert reason.startswith("/dev/rknpu is the driver's DMA_HEAP flavour")


class Node:
    """A simulated driver: its node is /dev/null, its buffers are memfds that pass as dma-bufs."""

    def __init__(self, found: DeviceBuffer, patch: pytest.MonkeyPatch) -> None:
        self.driver, self.ours, self.sram, self.fault = found.drm_name or found.driver, True, 0, 0
        self.asked: list[tuple[Any, ...]] = []
        patch.setattr(type(found), "node", "/dev/null")
        for maker in ("rknpu", "amdxdna", "amdgpu", "rocket"):
            patch.setattr(native, maker, self.make)
        patch.setattr(native, "owns", lambda *_: self.ours)
        patch.setattr(fds, "drm_driver", lambda _: self.driver)
        patch.setattr("zcopy.buffers.identify.link", lambda _: "/dmabuf:")
        patch.setattr("zcopy.buffers.identify.fdinfo", lambda _: {"exp_name": "drm", "size": "1048576"})

    def make(self, node: int, size: int, *flags: int) -> native.Bo:
        self.asked.append((size, *flags))
        if self.fault:
            raise NativeError(self.fault, os.strerror(self.fault))
        fields = {"size": size, "fd": fds.memfd("simulated", size), "sram": self.sram}
        return native.Bo(node, ffi.new("zc_bo *", fields))


@pytest.fixture
def node(
    rk3588: Host, halo: Host, rocket: Host, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[DeviceBuffer, Node]]:
    def of(name: str) -> tuple[DeviceBuffer, Node]:
        found = kind(name, rk3588 if name in RKNPU else halo if name in AMD else rocket)
        return found, Node(found, monkeypatch)

    return of


WORDS = {
    "amdxdna": ((8192,), "no flags"),
    "amdgpu:gtt": ((8192, 2, 0x1), "0x1"),
    "amdgpu:gtt-uswc": ((8192, 2, 0x5), "0x5"),
    "amdgpu:vram": ((8192, 4, 0x9), "0x9"),
    "rocket": ((8192,), "no flags"),
}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", WORDS)
def test_what_the_other_drivers_are_asked_for(name: str, node: Any) -> None:
    found, simulated = node(name)
    with found.allocate(4097, "x") as region:
        assert simulated.asked == [WORDS[name][0]]
        assert WORDS[name][1] in found.summary
        assert str(found.proof(region)["asked"]).endswith("asked for, not confirmed by the kernel")
        assert region.dmabuf == found.capabilities.dmabuf == (name != "amdgpu:vram")
        assert region.synced == (name != "amdgpu:vram")


@pytest.mark.parametrize("said", [22, 19, 95, 28, 13])
def test_an_npu_without_an_address_space_is_one_diagnosis(said: int, halo: Host) -> None:
    """EINVAL, ENODEV, EOPNOTSUPP and ENOSPC of one opening; EACCES is another matter."""
    fault = kind("amdxdna", halo).not_opened(NativeError(said, os.strerror(said)))
    assert ("PASID/SVA" in fault.hint) == (said != 13)
    assert fault.message.startswith("amdxdna: opening /dev/accel/accel0: ")


FLAGS = {"rknpu:cacheable": 0x403, "rknpu:wc": 0x405, "rknpu:device": 0x401, "rknpu:sram": 0x503}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", FLAGS)
def test_the_flags_are_those_of_the_summary(name: str, node: Any) -> None:
    found, simulated = node(name)
    simulated.sram = 8192
    with found.allocate(4097, "x") as region:
        assert simulated.asked == [(8192, FLAGS[name])]
        assert f"{FLAGS[name]:#x}" in found.summary
        proof = found.proof(region)
    assert proof["driver"] == "rknpu"
    assert f"{FLAGS[name]:#x}" in str(proof["asked"])
    assert str(proof["asked"]).endswith("asked for, not confirmed by the kernel")
    assert region.closed


@pytest.mark.usefixtures("nothing_left")
def test_sram_is_what_the_driver_says_it_gave(node: Any) -> None:
    found, simulated = node("rknpu:sram")
    simulated.sram = 4096
    with found.allocate(8192, "x") as region, pytest.raises(MeasurementError, match="only 4 KiB of 8 KiB"):
        found.proof(region)
    simulated.sram = 8192
    with found.allocate(8192, "x") as region:
        assert found.proof(region)["sram_bytes"] == 8192


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"driver": "panthor"}, "belongs to the driver panthor"),
        ({"ours": False}, "does not know this buffer"),
    ],
)
def test_a_node_that_is_not_the_drivers_does_not_pass(change: dict[str, Any], fault: str, node: Any) -> None:
    found, simulated = node("rknpu:wc")
    vars(simulated).update(change)
    with found.allocate(4096, "x") as region, pytest.raises(MeasurementError, match=fault):
        found.proof(region)


def test_an_exhausted_address_window_is_told_with_the_drivers_version(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, simulated = node("rknpu:wc")
    simulated.fault = EFAULT
    monkeypatch.setattr(native, "rknpu_version", lambda _: "0.9.6")
    with pytest.raises(RefusedError) as caught:
        found.allocate(4096, "x")
    assert "IOVA" in caught.value.hint
    assert "driver 0.9.6" in caught.value.hint
    simulated.fault = ENOTTY
    with pytest.raises(RefusedError) as caught:
        found.allocate(4096, "x")
    assert caught.value.hint == ""


def test_sram_is_offered_only_where_some_is_free(
    rk3588: Host, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _simulated = node("rknpu:sram")
    monkeypatch.setattr("zcopy.buffers.device.cannot_open", lambda *_: None)
    monkeypatch.setattr(native, "rknpu_free_sram", lambda _: 0)
    assert found.missing(rk3588) == "the driver reports no free SRAM for the NPU"
    monkeypatch.setattr(native, "rknpu_free_sram", lambda _: 65536)
    assert found.missing(rk3588) is None
    assert found.limit(rk3588) == (65536, "free SRAM of the NPU")


@pytest.mark.parametrize(("machine", "refused"), [("aarch64", True), ("x86_64", False)])
def test_device_memory_is_filled_by_nothing_yet_on_arm64(
    machine: str, refused: bool, tree: Callable[[str], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Uname:
        pass

    Uname.machine = machine  # type: ignore[attr-defined]
    monkeypatch.setattr("zcopy.buffers.strict.os.uname", Uname)
    host = tree("")
    for name in ("rknpu:wc", "memfd"):
        refuse_strict(registry.find(name, host))
    strict = registry.find("rknpu:device", host)
    if refused:
        with pytest.raises(RefusedError, match="Device memory on arm64"):
            refuse_strict(strict)
        arm = FillArm(
            Case(strict.name, "memcpy", 4096, "none", 1), SimpleNamespace(kind=strict), None, "", (0,)
        )  # type: ignore[arg-type]
        arm.run("prepare")
        assert (arm.outcome, arm.ns) == (Outcome.REFUSED, {})
        assert str(arm.reason).startswith("rknpu:device is Device memory on arm64")
    else:
        refuse_strict(strict)
