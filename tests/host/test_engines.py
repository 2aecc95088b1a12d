"""Which GPU or NPU is behind a node, and that its name stays the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.host import Host


def pci(address: str, *nodes: str, driver: str = "amdgpu", bus: str = "pci") -> str:
    """A device on a bus with these nodes, such as ``drm/card0`` or ``accel/accel0``."""
    place = f"devices/pci0000:00/{address}"
    lines = [f"sys/{place}/driver -> ../../../bus/{bus}/drivers/{driver}"]
    lines += [f"sys/class/{node}/device -> ../../../{place}" for node in nodes]
    return "".join(f"{line}\n" for line in lines)


def locks(root: Path) -> dict[str, str | None]:
    return {device.name: device.lock for device in Host.read(root).devices}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("strix-halo", {"card1": "gpu0", "renderD128": "gpu0", "accel0": "npu0"}),
        ("rk3588", {"card1": "npu0", "renderD129": "npu0", "mali0": "gpu0"}),
        ("plain-vm", {}),
        ("amdgpu-without-gpu", {}),
    ],
)
def test_the_nodes_of_one_device_share_its_name(
    box: Callable[[str], Path], name: str, expected: dict[str, str]
) -> None:
    found = locks(box(name))
    assert {node: lock for node, lock in found.items() if lock} == expected
    assert len(found) > len(expected)  # kfd, heaps, udmabuf, RGA: no GPU or NPU of their own


def test_names_follow_the_place_and_not_the_kernels_numbers(tree: Callable[[str], Path]) -> None:
    """card0 and card1 change places when drivers are loaded in another order; the GPU in the slot is the same."""
    found = locks(
        tree(
            pci("0000:c5:00.0", "drm/card0", "drm/renderD128")
            + pci("0000:03:00.0", "drm/card1", "drm/renderD129", "accel/accel1")
            + pci("0000:07:00.0", "accel/accel0", driver="amdxdna")
        )
    )
    assert found == {
        "card0": "gpu1", "renderD128": "gpu1",
        "card1": "gpu0", "renderD129": "gpu0",
        "accel1": "npu0", "accel0": "npu1",
    }  # fmt: skip


def test_a_card_that_only_shows_pictures_is_counted_after_the_gpus(tree: Callable[[str], Path]) -> None:
    found = locks(
        tree(
            pci("0000:02:00.0", "drm/card0", driver="ast")
            + pci("0000:c5:00.0", "drm/card1", "drm/renderD128")
            + pci("0000:01:00.0", "drm/card2", driver="bochs")
        )
    )
    assert found == {"card0": "gpu2", "card1": "gpu0", "renderD128": "gpu0", "card2": "gpu1"}


@pytest.mark.parametrize(
    "driver", ["", "sys/devices/faux/vgem/driver -> ../../../bus/faux/drivers/faux_driver\n"]
)
def test_a_card_without_hardware_has_no_lock(tree: Callable[[str], Path], driver: str) -> None:
    found = locks(
        tree(
            "sys/class/drm/card0/device -> ../../../devices/faux/vgem\n"
            "sys/class/drm/renderD128/device -> ../../../devices/faux/vgem\n"
            "sys/devices/faux/vgem/uevent = x\n" + driver + pci("0000:c5:00.0", "drm/card1")
        )
    )
    assert found == {"card0": None, "renderD128": None, "card1": "gpu0"}


def test_an_accelerator_needs_no_bus_driver(tree: Callable[[str], Path]) -> None:
    """rocket's one node hangs on a platform device that no driver is bound to."""
    box = "sys/class/accel/accel0/device -> ../../../devices/platform/rknn\nsys/devices/platform/rknn/uevent = x\n"
    assert locks(tree(box)) == {"accel0": "npu0"}


def test_the_nodes_of_a_name(box: Callable[[str], Path]) -> None:
    host = Host.read(box("strix-halo"))
    assert host.nodes("gpu0") == ("/dev/dri/card1", "/dev/dri/renderD128")
    assert host.nodes("cpu") == host.nodes("gpu1") == ()


def test_a_run_keeps_the_names(box: Callable[[str], Path]) -> None:
    document = Host.read(box("strix-halo")).document()
    devices = {each["path"]: each["lock"] for each in document["devices"]}  # type: ignore[union-attr,call-overload,index]
    assert devices["/dev/dri/card1"] == "gpu0"
    assert devices["/dev/kfd"] is None
