import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.host import filesystem
from zcopy.host.files import Root
from zcopy.host.mounts import find_type, mounts

TABLE = r"""
== proc/self/mountinfo
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:30 / /home rw shared:1 master:2 - btrfs /dev/vdb rw,subvol=/home
31 27 0:31 / /a\040b\134c rw - tmpfs tmpfs rw
32 31 0:31 /sub /elsewhere rw - tmpfs tmpfs rw
odd line
33
==
"""


def test_the_table(tree: Callable[[str], Path]) -> None:
    found = mounts(Root(tree(TABLE)))
    assert [(mount.id, mount.at, mount.type) for mount in found] == [
        (27, "/", "ext4"),
        (30, "/home", "btrfs"),
        (31, "/a b\\c", "tmpfs"),
        (32, "/elsewhere", "tmpfs"),
    ]


def test_the_mount_id_decides_before_the_device(tree: Callable[[str], Path]) -> None:
    table = mounts(Root(tree(TABLE)))
    assert find_type(table, 30, os.makedev(0, 99)) == "btrfs"
    assert find_type(table, None, os.makedev(254, 0)) == "ext4"
    assert find_type(table, None, os.makedev(7, 7)) == "unknown"


@pytest.mark.parametrize("path", ["/proc", "/sys", "/dev/shm", "/tmp", "/"])
def test_agrees_with_findmnt(path: str) -> None:
    findmnt = shutil.which("findmnt")
    if findmnt is None or not Path(path).exists():
        pytest.skip("no findmnt, or no such folder")
    done = subprocess.run([findmnt, "-no", "FSTYPE", "-T", path], capture_output=True, text=True, check=True)
    assert filesystem(Path(path)) == done.stdout.split()[-1]


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert filesystem(tmp_path / "not" / "there") == filesystem(tmp_path)
    assert filesystem(Path("/proc/nothing/here")) == "proc"


def test_leaves_no_descriptor(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    for _ in range(20):
        filesystem(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208
