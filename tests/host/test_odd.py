"""Boxes that are missing, broken or hostile: facts become None, nothing raises, nothing hangs."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zcopy.host import Host
from zcopy.host.files import Root, natural, printable, selected

HOSTS = Path(__file__).parent.parent / "hosts"


def everything(root: Path) -> dict[str, object]:
    """All that is ever read of a host."""
    host = Host.read(root)
    found: dict[str, object] = {
        "document": host.document(),
        "key": host.key(["amdgpu", "../../etc", "", "udmabuf"]),
        "room": host.room(),
        "warnings": [warning.document() for warning in host.quiet_warnings()],
        "remedies": [device.remedy for device in host.devices],
        "kfd": [node.document() for node in host.kfd],
    }
    json.dumps(found, allow_nan=False)
    return found


def test_an_empty_folder(tmp_path: Path) -> None:
    host = Host.read(tmp_path)
    everything(tmp_path)
    assert host.kernel.release is None
    assert host.cpu.count == 1
    assert host.room() == (0, "MemAvailable, which cannot be read")


def test_no_folder_at_all(tmp_path: Path) -> None:
    everything(tmp_path / "none")


JUNK = (
    b"",
    b"\0",
    b"\xff\xfe\x80\n",
    b"-1\n",
    b"9" * 300,
    b"nan\n",
    b"\x1b[31m\x1b]0;x\x07\n",
    b": : :\n" * 50,
)


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("name", ["strix-halo", "rk3588", "plain-vm"])
def test_every_file_replaced_by_junk(box: Callable[[str], Path], name: str, junk: bytes) -> None:
    root = box(name)
    for folder, _, files in os.walk(root):
        for file in files:
            path = Path(folder, file)
            if path.is_file() and not path.is_symlink():
                path.write_bytes(junk)
    text = json.dumps(everything(root), ensure_ascii=False)
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["strix-halo", "rk3588"])
def test_folders_where_files_should_be(box: Callable[[str], Path], name: str) -> None:
    root = box(name)
    for path in [Path(folder, file) for folder, _, files in os.walk(root) for file in files]:
        path.unlink()
        path.mkdir()
    everything(root)


def test_fifos_do_not_block(tree: Callable[[str], Path]) -> None:
    root = tree("proc/meminfo = MemTotal: 1 kB\nsys/class/drm/card0/device/vendor = 0x1\n")
    for name in ("proc/loadavg", "proc/cpuinfo", "sys/class/drm/card0/device/device", "etc/group"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(root / name)
    everything(root)


def test_link_loops_and_dangling_links(tree: Callable[[str], Path]) -> None:
    root = tree(
        "sys/class/drm/card0 -> card1\n"
        "sys/class/drm/card1 -> card0\n"
        "sys/class/drm/card2/device -> ../../../nowhere\n"
        "sys/class/drm/card3/device/driver -> ../../../../bus/pci/drivers/\x1bodd\n"
        "dev/dri/card0 -> card0\n"
    )
    devices = Host.read(root).devices
    assert [(device.name, device.where) for device in devices] == [
        ("card0", None),
        ("card1", None),
        ("card2", None),
        ("card3", "device"),
    ]
    assert devices[3].driver == "\ufffdodd"
    assert Host.read(root).drivers == ()


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"x" * 10_000_000)
    root = Root(tmp_path)
    assert len(root.raw("huge") or b"") == 4096
    assert len(root.line("huge") or "") == 256
    assert len(root.raw("huge", 1_000_000) or b"") == 1_000_000


def test_an_endless_file_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert len(Root(tmp_path).raw("zero", 3_000_000) or b"") == 3_000_000


def test_absurd_temperatures_are_left_out(tree: Callable[[str], Path]) -> None:
    zone = "sys/class/thermal/thermal_zone"
    root = tree(
        f"{zone}0/type = acpitz\n{zone}0/temp = -274000\n"
        f"{zone}1/type = acpitz\n{zone}1/temp = 20000\n"
        f"{zone}1/trip_point_0_type = critical\n{zone}1/trip_point_0_temp = -274000\n"
    )
    temperatures = Host.read(root).temperatures()
    assert [(each.celsius, each.limit) for each in temperatures] == [(20.0, None)]


def test_huge_cpu_lists_are_no_lists(tree: Callable[[str], Path]) -> None:
    assert Host.read(tree("sys/devices/system/cpu/online = 0-999999999\n")).cpu.online == ()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400))
@pytest.mark.parametrize(
    "file",
    [
        "proc/cpuinfo",
        "proc/meminfo",
        "proc/loadavg",
        "proc/self/cgroup",
        "proc/self/mountinfo",
        "proc/self/auxv",
    ],
)
def test_any_bytes(tmp_path: Path, file: str, data: bytes) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    everything(tmp_path)


def test_natural_order() -> None:
    assert sorted(["card10", "card2", "card1"], key=natural) == ["card1", "card2", "card10"]


def test_printable_is_one_clean_line() -> None:
    assert printable("  a\tb\x1b[0m \nnext") == "a\ufffdb\ufffd[0m"


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("always [madvise] never", "madvise"),
        ("[never]", "never"),
        ("always", None),
        (None, None),
        ("[]", None),
    ],
)
def test_selected(text: str | None, choice: str | None) -> None:
    assert selected(text) == choice
