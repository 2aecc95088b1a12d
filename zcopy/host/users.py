"""Which processes hold device nodes open, as far as this user may look (proc_pid_fd(5))."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zcopy.host.files import Root
from zcopy.model import Json

_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class User:
    """A process that holds some of the asked nodes open; `command` is its short name, at most 15 characters."""

    pid: int
    command: str
    nodes: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.command or '?'} (pid {self.pid})"

    def document(self) -> dict[str, Json]:
        return {"pid": self.pid, "command": self.command}


@dataclass(frozen=True, slots=True)
class Users:
    """The users found, by pid, and how many processes are there that may not be looked into.

    Not seen: processes that /proc hides altogether (hidepid, another pid namespace), and a process that has
    mapped a device's memory and closed its node since.
    """

    found: tuple[User, ...] = ()
    hidden: int = 0

    def of(self, nodes: Collection[str]) -> tuple[User, ...]:
        """Those that hold one of these nodes."""
        return tuple(user for user in self.found if not set(nodes).isdisjoint(user.nodes))


def read_users(root: Root, nodes: Iterable[str]) -> Users:
    """Who but this process holds one of `nodes` (as ``/dev/dri/renderD128``) open now.

    A node is known by its device number: its path in a container may be another. Takes some microseconds for
    each open file of the box.
    """
    numbers = {number: node for node in nodes if (number := _number(root.stat(node.lstrip("/")))) is not None}
    if not numbers:
        return Users()
    found, hidden, own = [], 0, root.link("proc/self")
    for pid in root.names("proc"):
        if not pid.isdecimal() or pid == own:
            continue
        try:
            held = tuple(sorted(set(_held(root, pid, numbers))))
        except PermissionError:
            hidden += _is_program(root, pid)
            continue
        if held:
            found.append(User(int(pid), root.line(f"proc/{pid}/comm") or "", held))
    return Users(tuple(found), hidden)


def users_text(users: Iterable[User]) -> str:
    """``ollama (pid 31), Xorg (pid 7)``, after the third how many more there are."""
    every = [user.text for user in users]
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


def _held(root: Root, pid: str, numbers: Mapping[int, str]) -> Iterator[str]:
    """The nodes of `numbers` among the open files. Raises PermissionError where they are not for us to see."""
    folder = root.join(f"proc/{pid}/fd")
    try:
        with os.scandir(folder) as links:
            for link in links:
                if (node := numbers.get(_device_of(link.path))) is not None:
                    yield node
    except PermissionError:
        raise
    except OSError:
        return  # it ended


def _device_of(link: str) -> int:
    """The device number behind an open file, -1 for what is no device.

    Only files below /dev are looked at closer: on a dead network mount that would hang.
    """
    try:
        if not os.readlink(link).startswith("/dev/"):  # noqa: PTH115 - one of thousands
            return -1
        return _number(os.stat(link)) or -1  # noqa: PTH116
    except FileNotFoundError:
        return -1


def _number(found: os.stat_result | None) -> int | None:
    return found.st_rdev if found is not None and stat.S_ISCHR(found.st_mode) else None


def _is_program(root: Root, pid: str) -> bool:
    """Neither a thread of the kernel nor a process that has ended: those have no command line."""
    return bool(root.raw(f"proc/{pid}/cmdline", 1))
