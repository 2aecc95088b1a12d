"""Holds inside holds: what this process runs inside of, proved by token or by ancestry.

A hold hands its children a token; its lock files carry the token's SHA-256. Who shows the token of the
present holder is inside that hold and queues for an inner lock named by the hash, so that two children of one
hold still exclude each other. A script that locks the file with flock(1) hands down no token: there, a
process is inside when an ancestor (or a file it inherited) carries the lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zcopy.locks import procfs
from zcopy.locks.lockfile import LockFile, peek_lock
from zcopy.locks.names import is_name
from zcopy.locks.notes import live_note
from zcopy.locks.paths import LockFolder, Place, inner_place, known_devices, place
from zcopy.locks.procfs import LockLine
from zcopy.locks.settings import LockSettings

VARIABLE: Final = "ZCOPY_HELD"
_TOKEN: Final = re.compile(r"([A-Za-z0-9_.+-]+)=[0-9a-f]{32}")
_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Token:
    """What proves that one is inside a hold: its devices and 128 random bits, ``cpu+gpu0=9f…``."""

    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(name for name in self.text.partition("=")[0].split("+") if is_name(name))


def new_token(devices: Sequence[str]) -> Token:
    """A token that nobody can guess."""
    return Token(f"{'+'.join(devices)}={os.urandom(16).hex()}")


def parse_tokens(value: str | None) -> tuple[Token, ...]:
    """The tokens in ZCOPY_HELD, outermost first; what is none is left out (it would prove nothing)."""
    words = (value or "").split(":")[-_DEPTH:]
    return tuple(Token(word) for word in words if _TOKEN.fullmatch(word))


def handed_down(outer: Sequence[Token], own: Token) -> str:
    """ZCOPY_HELD for the children of a hold."""
    return ":".join(token.text for token in (*outer, own))


@dataclass(frozen=True, slots=True)
class Lineage:
    """The holds this process may be inside of, by its tokens (outermost first) and by its ancestors."""

    settings: LockSettings
    folder: LockFolder
    tokens: tuple[Token, ...]

    def inner_name(self, lock: LockFile) -> str | None:
        """The inner lock to queue for when `lock`, which is busy, is held by a hold around us, else None."""
        note = live_note(lock, procfs.flocks(lock.id), lambda: True)
        if note and note.digest in self._digests():
            return note.digest
        kin = next((line for line in kin_locks() if line.file == lock.id), None)
        if kin is None:
            return None
        return note.digest if note else _script_digest(kin)

    def later_device(self, spot: Place, around: Sequence[str]) -> str | None:
        """A device held around us for which those who have `spot` may be waiting: to wait could deadlock.

        Args:
            spot: the lock to wait for.
            around: names of the holds around `spot` (empty: it is the device's own lock). What those hold
                is held for both sides; only holds further inside matter.
        """
        inside = self._further_inside(around)
        names = {device for token in inside if self._is_live(token) for device in token.devices}
        if not around:
            names |= set(self._by_scripts())
        ranks = {name: place(name, self.settings, self.folder).rank for name in names}
        return next((name for name in sorted(names) if ranks[name] > spot.rank), None)

    def _digests(self) -> tuple[str, ...]:
        return tuple(token.digest for token in self.tokens)

    def _further_inside(self, around: Sequence[str]) -> tuple[Token, ...]:
        digests = self._digests()
        depth = max((digests.index(name) + 1 for name in around if name in digests), default=0)
        return self.tokens[depth:]

    def _is_live(self, token: Token) -> bool:
        return any(token.digest in self._holds_on(device) for device in token.devices)

    def _holds_on(self, device: str) -> Iterator[str]:
        """Digests of the holds on `device`, from its own lock inwards as far as our tokens lead."""
        spot = place(device, self.settings, self.folder)
        digests = self._digests()
        for _ in range(_DEPTH):
            lock = peek_lock(spot)
            if lock is None:
                return
            with contextlib.closing(lock):
                note = live_note(lock, procfs.flocks(lock.id), lock.busy)
            if note is None:
                return
            yield note.digest
            if note.digest not in digests:
                return
            spot = inner_place(spot, self.folder, note.digest)

    def _by_scripts(self) -> Iterator[str]:
        """Devices whose lock file an ancestor has locked, with whatever tool."""
        files = {line.file for line in kin_locks()}
        for device in known_devices(self.settings, self.folder) if files else ():
            lock = peek_lock(place(device, self.settings, self.folder))
            if lock is not None:
                with contextlib.closing(lock):
                    if lock.id in files:
                        yield device


def kin_locks() -> Iterator[LockLine]:
    """The flocks of our ancestors, and those on files that came to us through an exec."""
    for pid in (os.getpid(), *procfs.ancestors(os.getpid())):
        try:
            for info in procfs.open_files(pid):
                # Our own holds are close-on-exec: a file that is not was inherited.
                if pid != os.getpid() or not info.cloexec:
                    yield from info.locks
        except PermissionError:
            # Another user's: believe the pid that /proc/locks gives for the lock.
            yield from procfs.flocks_of(pid)


def _script_digest(line: LockLine) -> str:
    """One name for all who are inside the same script's hold."""
    return hashlib.sha256(f"{line.file.device}:{line.file.inode}:{line.pid}".encode()).hexdigest()
