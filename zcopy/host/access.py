"""May this user open a device node, and if not: which group or which udev rule would help?"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

from zcopy.host.files import Root
from zcopy.model import Json

_GROUP_RW: Final = stat.S_IRGRP | stat.S_IWGRP


@dataclass(frozen=True, slots=True)
class Node:
    """A device node. `mode` are its permission bits; owner and group are names, or numbers without a name.

    `open_` says whether this process may open it for reading and writing, ACLs and capabilities included.
    A container's device filter cannot be seen this way: only opening tells.
    """

    mode: int
    owner: str
    group: str
    open_: bool

    @property
    def mode_text(self) -> str:
        return f"{self.mode:04o}"

    @property
    def group_helps(self) -> bool:
        """Whether membership in the node's group would open it."""
        return self.mode & _GROUP_RW == _GROUP_RW and self.group not in ("root", "0")

    def document(self) -> dict[str, Json]:
        return {"mode": self.mode_text, "owner": self.owner, "group": self.group, "access": self.open_}


@dataclass(frozen=True, slots=True)
class Names:
    """User and group names by number, from /etc."""

    users: dict[int, str]
    groups: dict[int, str]


def read_names(root: Root) -> Names:
    """The names in etc/passwd and etc/group below `root`."""
    return Names(_names(root, "etc/passwd"), _names(root, "etc/group"))


def read_node(root: Root, path: str, names: Names) -> Node | None:
    """The node at `path` (as ``dev/dri/renderD128``), or None when it is not there."""
    found = root.stat(path)
    if found is None:
        return None
    return Node(
        mode=stat.S_IMODE(found.st_mode),
        owner=names.users.get(found.st_uid, str(found.st_uid)),
        group=names.groups.get(found.st_gid, str(found.st_gid)),
        open_=os.access(root.join(path), os.R_OK | os.W_OK, effective_ids=True),
    )


def remedy(node: Node | None, subsystem: str, name: str) -> str | None:
    """What would let this user open the node, in a few words; None when nothing needs to.

    `subsystem` and `name` are the kernel's, for the udev rule where no group would do.
    """
    if node is None:
        return "no device node here (a container must be given it)"
    if node.open_:
        return None
    if node.group_helps:
        return f"join the group: usermod -aG {node.group} USER, then log in again"
    rule = f'SUBSYSTEM=="{subsystem}", KERNEL=="{name}", GROUP="render", MODE="0660"'
    return f"needs root, or a udev rule: {rule}"


def _names(root: Root, file: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for line in root.lines(file):
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdecimal() and len(fields[2]) < 11 and fields[0].isprintable():
            found.setdefault(int(fields[2]), fields[0])
    return found
