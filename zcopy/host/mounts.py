"""What is mounted where: the file system under a folder, and the places of the cgroup hierarchies.

Format: proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zcopy.host.files import Root, integer, pairs

UNKNOWN: Final = "unknown"
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_LONGEST: Final = 8 << 20  # a box with many containers has a long mount table


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo. `device` is ``major:minor``; `inside` is the folder of it that is mounted."""

    id: int
    device: str
    inside: str
    at: str
    type: str
    options: frozenset[str]


def mounts(root: Root) -> tuple[Mount, ...]:
    """The mounts this process sees, in mount order; lines that are odd are left out."""
    found = (_mount(line) for line in root.lines("proc/self/mountinfo", _LONGEST))
    return tuple(mount for mount in found if mount is not None)


def filesystem(path: Path) -> str:
    """The type of the file system that holds `path` (``tmpfs``, ``ext4``, ``overlay`` …), or "unknown".

    A path that does not exist yet is answered for its nearest existing folder. The kernel is asked for the
    mount of the opened folder: exact under bind mounts and on btrfs, whose st_dev is in no mount table.
    """
    folder = _nearest(path)
    try:
        fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return UNKNOWN
    try:
        fdinfo = pairs(Root().lines(f"proc/self/fdinfo/{fd}"))
        device = os.fstat(fd).st_dev
    finally:
        os.close(fd)
    return find_type(mounts(Root()), integer(fdinfo.get("mnt_id")), device)


def find_type(table: Sequence[Mount], mount_id: int | None, device: int) -> str:
    """The type of the mount with this id, else of the last one on `device` (an st_dev), else "unknown"."""
    for mount in table:
        if mount.id == mount_id:
            return mount.type
    name = f"{os.major(device)}:{os.minor(device)}"
    return next((mount.type for mount in reversed(table) if mount.device == name), UNKNOWN)


def _nearest(path: Path) -> Path:
    absolute = path.absolute()
    # os.path.exists, because Path.exists raises where a folder on the way may not be entered.
    there = (each for each in (absolute, *absolute.parents) if os.path.exists(each))  # noqa: PTH110
    return next(there, Path("/"))


def _mount(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    number = integer(left[0])
    if not separator or len(left) < 6 or len(right) < 3 or number is None:
        return None
    options = frozenset(right[2].split(","))
    return Mount(number, left[2], _plain(left[3]), _plain(left[4]), right[0], options)


def _plain(path: str) -> str:
    """mountinfo writes space, tab, newline and backslash as octal escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)
