"""What /proc says about locks, open files, mounts and processes. Everything may vanish while it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class FileId:
    """A file as the kernel's lock lists write it: the file system's device in hex, and the inode.

    Not stat's st_dev: btrfs and overlayfs show stat another device than the lock lists.
    """

    device: str
    inode: int


@dataclass(frozen=True, slots=True)
class LockLine:
    """One flock(2) lock. `pid` is who asked for it, perhaps dead by now; 0 where its namespace hides it."""

    file: FileId
    pid: int
    waiting: bool


@dataclass(frozen=True, slots=True)
class FdInfo:
    """One open file of a process: where it is, whether an exec closes it, and the flock it carries."""

    mount: int
    inode: int | None  # since Linux 5.14
    cloexec: bool
    locks: tuple[LockLine, ...]


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system; `device` as in FileId."""

    device: str
    kind: str


def _read(*parts: str) -> str:
    """The file's text, empty when it is gone or not for us."""
    try:
        return _PROC.joinpath(*parts).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def device_text(major: int, minor: int) -> str:
    """A device number as /proc/locks prints it."""
    return f"{major:02x}:{minor:02x}"


def parse_lock(line: str) -> LockLine | None:
    """A line such as ``1: FLOCK  ADVISORY  WRITE 7283 fe:00:2146317 0 EOF``; None for other kinds of lock."""
    words = [word for word in line.split() if word != "->"]
    if len(words) < 6 or words[1] != "FLOCK":
        return None
    device, _, inode = words[5].rpartition(":")
    try:
        return LockLine(FileId(device, int(inode)), int(words[4]), "->" in line)
    except ValueError:
        return None


def _table() -> Iterator[LockLine]:
    for line in _read("locks").splitlines():
        if lock := parse_lock(line):
            yield lock


def flocks(file: FileId) -> tuple[LockLine, ...]:
    """Every flock on `file` that /proc/locks shows, those still waiting included."""
    return tuple(line for line in _table() if line.file == file)


def flocks_of(pid: int) -> tuple[LockLine, ...]:
    """Every flock that `pid` asked for and that is still held, by it or by who inherited the file."""
    return tuple(line for line in _table() if line.pid == pid and not line.waiting)


def fd_info(pid: int | str, fd: int | str) -> FdInfo | None:
    """What /proc/PID/fdinfo says of one file, or None when it cannot be read."""
    fields: dict[str, str] = {}
    locks = []
    for line in _read(str(pid), "fdinfo", str(fd)).splitlines():
        key, _, value = line.partition(":")
        if key == "lock":
            locks.append(parse_lock(value))
        else:
            fields[key] = value.strip()
    if "mnt_id" not in fields:
        return None
    return FdInfo(
        mount=int(fields["mnt_id"]),
        inode=int(fields["ino"]) if "ino" in fields else None,
        cloexec=bool(int(fields.get("flags", "0"), 8) & os.O_CLOEXEC),
        locks=tuple(lock for lock in locks if lock is not None),
    )


def open_files(pid: int, name: str | None = None) -> Iterator[FdInfo]:
    """The files (no pipes, no sockets) that `pid` has open; with `name`, only those so named.

    Raises PermissionError when they are not for us to see. Names are read from the links and never looked up,
    since a look-up on a dead network mount hangs.
    """
    folder = _PROC / str(pid) / "fd"
    try:
        links = list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for link in links:
        try:
            target = str(link.readlink())
        except (FileNotFoundError, ProcessLookupError):
            continue
        if not target.startswith("/") or (name and Path(target.removesuffix(" (deleted)")).name != name):
            continue
        if info := fd_info(pid, link.name):
            yield info


def mount(mount_id: int) -> Mount | None:
    """The mount of that number (fdinfo's mnt_id) in our namespace."""
    for line in _read("self", "mountinfo").splitlines():
        words = line.split()
        if words[0] == str(mount_id):
            major, _, minor = words[2].partition(":")
            return Mount(device_text(int(major), int(minor)), words[words.index("-") + 1])
    return None


def pids() -> list[int]:
    """Every process that is shown to us."""
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()]


def _stat(pid: int) -> list[str]:
    # The command's name stands in parentheses and may hold both spaces and parentheses.
    return _read(str(pid), "stat").rpartition(")")[2].split()


def ancestors(pid: int) -> tuple[int, ...]:
    """The parent of `pid`, its parent, and so on up to the first process of our namespace."""
    found: list[int] = []
    while (fields := _stat(pid)) and (pid := int(fields[1])) > 0 and pid not in found:
        found.append(pid)
    return tuple(found)


def started_ns(pid: int) -> int | None:
    """When `pid` was started, in ns since the epoch (good to a clock tick); None when it is gone."""
    fields = _stat(pid)
    boot = [line.split()[1] for line in _read("stat").splitlines() if line.startswith("btime ")]
    if not fields or not boot:
        return None
    return int(boot[0]) * 10**9 + int(fields[19]) * 10**9 // os.sysconf("SC_CLK_TCK")


def uid(pid: int) -> int | None:
    """The real user of `pid`, or None when it is gone or hidden."""
    for line in _read(str(pid), "status").splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return None


def command(pid: int) -> str:
    """The command line of `pid`, its short name in brackets where there is none, empty when it is gone."""
    words = _read(str(pid), "cmdline").split("\0")
    line = " ".join(words).strip()
    name = _read(str(pid), "comm").strip()
    return line or (f"[{name}]" if name else "")
