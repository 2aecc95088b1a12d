import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.host import Host, Node
from zcopy.host.access import read_names, read_node, remedy
from zcopy.host.files import Root


def node(mode: int, group: str, may: bool = False) -> Node:
    return Node(mode, "root", group, may)


def test_a_group_that_has_access_is_named() -> None:
    assert "usermod -aG render" in str(remedy(node(0o660, "render"), "drm", "renderD128"))


@pytest.mark.parametrize(
    ("mode", "group"), [(0o600, "root"), (0o660, "root"), (0o600, "kvm"), (0o640, "kvm")]
)
def test_where_no_group_helps_the_udev_rule_is_named(mode: int, group: str) -> None:
    text = str(remedy(node(mode, group), "dma_heap", "system"))
    assert 'SUBSYSTEM=="dma_heap", KERNEL=="system", GROUP="render", MODE="0660"' in text


def test_what_is_open_needs_no_remedy() -> None:
    assert remedy(node(0o600, "root", may=True), "drm", "card0") is None


def test_a_missing_node_is_said() -> None:
    assert "no device node" in str(remedy(None, "drm", "card0"))


def test_names_of_owner_and_group(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/group").write_text(f"odd\nbench:x:{os.getgid()}:\nsecond:x:{os.getgid()}:\nx:x:y:\n")
    (tmp_path / "dev").touch(0o640)
    (tmp_path / "dev").chmod(0o640)
    found = read_node(Root(tmp_path), "dev", read_names(Root(tmp_path)))
    assert found is not None
    assert (found.mode_text, found.owner, found.group) == ("0640", str(os.getuid()), "bench")


AS_NOBODY = """
import os, sys
from pathlib import Path
from zcopy.host import Host
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for device in Host.read(Path(sys.argv[1])).devices:
    print(device.path, device.usable)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_access_is_that_of_nobody(box: Callable[[str], Path]) -> None:
    # Not below tmp_path, whose parents nobody may not enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = shutil.copytree(box("rk3588"), Path(folder, "box"), symlinks=True)
        command = [sys.executable, "-c", AS_NOBODY, str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    usable = dict(line.split() for line in done.stdout.splitlines())
    assert usable["/dev/rga"] == "True"
    assert usable["/dev/dri/card1"] == "False"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_access_is_that_of_this_user(box: Callable[[str], Path]) -> None:
    root = box("rk3588")
    (root / "dev/dma_heap/system").chmod(0)
    heaps = {device.name: device.usable for device in Host.read(root).of_kind("dma-heap")}
    assert heaps == {"system": False, "system-uncached": True}
