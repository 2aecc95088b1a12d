"""Who holds a lock: the process that has it, not the one /proc/locks remembers as its opener."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from zcopy.locks import procfs
from zcopy.locks.lockfile import LockFile
from zcopy.locks.notes import Note, clean, live_note
from zcopy.units import duration_text

_NAME: Final = 32
_COMMAND: Final = 120


@dataclass(frozen=True, slots=True)
class Holder:
    """What is known of a holder; the texts are already safe to print, empty where nothing is known.

    Attributes:
        pid: None when /proc shows us neither a holder nor an opener.
        certain: its open file carries the lock. Otherwise `pid` opened the file (and may have ended since),
            and who has the lock now is hidden from this user.
        since_ns: ns since the epoch, from the holder's note, else the start of its process.
        label: the holder's own words, from its note.
        others: further processes with the same open file, such as a script's children.
    """

    pid: int | None
    user: str = ""
    command: str = ""
    label: str = ""
    since_ns: int | None = None
    certain: bool = True
    noted: bool = False
    others: int = 0

    def text(self, now_ns: int) -> str:
        """``held by ada (pid 31, "make -j"), label "night", since 2026-11-30T21:00:00Z (3 min 05 s)``."""
        parts = [self._who(), f'label "{self.label}"' if self.label else "", self._since(now_ns)]
        return ", ".join(part for part in parts if part)

    def _who(self) -> str:
        if self.pid is None:
            return "held by a process that is hidden from this one"
        about = f'pid {self.pid}, "{self.command}"' if self.command else f"pid {self.pid}, ended or hidden"
        more = f" and {self.others} more" if self.others else ""
        verb = "held by" if self.certain else "opened by"
        return f"{verb} {self.user} ({about}){more}" if self.user else f"{verb} {about}{more}"

    def _since(self, now_ns: int) -> str:
        if self.since_ns is None:
            return ""
        moment = datetime.fromtimestamp(self.since_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        verb = "since" if self.noted else "running since"
        return f"{verb} {moment} ({duration_text(max(0, now_ns - self.since_ns))})"


@dataclass(frozen=True, slots=True)
class Use:
    """A lock as /proc shows it now: its holder (None: free) and the processes that wait for it."""

    holder: Holder | None
    waiting: tuple[int, ...] = field(default=())


def look(lock: LockFile, *, busy: bool = False) -> Use:
    """Who holds `lock` and who waits for it, as far as /proc shows us; nothing is locked to find out.

    `busy`: it is known to be held. Otherwise one that is held outside our pid namespace looks free.
    """
    lines = procfs.flocks(lock.id)
    openers = [line.pid for line in lines if not line.waiting and line.pid > 0]
    note = live_note(lock, lines, lambda: busy)
    pids = _holding(lock, openers)
    waiting = tuple(line.pid for line in lines if line.waiting)
    if pids:
        return Use(_describe(pids[0], note, certain=True, others=len(pids) - 1), waiting)
    if openers:
        return Use(_describe(openers[0], note, certain=False, others=0), waiting)
    if note:
        return Use(Holder(None, label=note.label, since_ns=note.since_ns, noted=True), waiting)
    return Use(None, waiting)


def _holding(lock: LockFile, openers: Iterable[int]) -> list[int]:
    """The processes whose open files carry the lock, the longest running first.

    An opener that still has it is answer enough; only without one is every process looked at.
    """
    found = [pid for pid in openers if _carries(pid, lock)]
    found = found or [pid for pid in procfs.pids() if _carries(pid, lock)]
    return sorted(set(found), key=lambda pid: procfs.started_ns(pid) or 0)


def _carries(pid: int, lock: LockFile) -> bool:
    try:
        files = list(procfs.open_files(pid, lock.place.path.name))
    except PermissionError:
        return False
    return any(line.file == lock.id for info in files for line in info.locks)


def _describe(pid: int, note: Note | None, *, certain: bool, others: int) -> Holder:
    return Holder(
        pid=pid,
        user=_user(pid),
        command=clean(procfs.command(pid), _COMMAND),
        label=note.label if note else "",
        since_ns=note.since_ns if note else procfs.started_ns(pid),
        certain=certain,
        noted=note is not None,
        others=others,
    )


def _user(pid: int) -> str:
    import pwd  # a directory service may stand behind it: only when there is somebody to name

    uid = procfs.uid(pid)
    if uid is None:
        return ""
    try:
        return clean(pwd.getpwuid(uid).pw_name, _NAME)
    except KeyError:
        return f"uid {uid}"
