"""The holder's note: who holds a lock, why and since when, for those who wait and for those inside the hold.

It is one block at the start of a lock file of ours, and a copy beside it: a script that opens the lock with
``9>`` empties the file. A note proves nothing by itself (holders get killed): `live_note` asks the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from zcopy.errors import RefusedError
from zcopy.locks.lockfile import LockFile, open_lock, peek_lock
from zcopy.locks.paths import Place
from zcopy.locks.procfs import LockLine

_BLOCK: Final = 1024  # always written whole, so that nothing need ever be truncated
_MAGIC: Final = b"zcopy-lock "
_LABEL: Final = 80


@dataclass(frozen=True, slots=True)
class Note:
    """`digest`: SHA-256 of the holder's token in hex. `since_ns`: ns since the epoch. `pid`: the holder."""

    digest: str
    pid: int
    since_ns: int
    label: str


def clean(text: str, length: int = _LABEL) -> str:
    """Another's text made safe to print: one line, no control or formatting characters, cut to length."""
    spaced = " ".join(text.split())
    plain = "".join(char for char in spaced if not unicodedata.category(char).startswith("C"))
    return plain if len(plain) <= length else plain[: length - 3] + "..."


def write_note(lock: LockFile, note: Note) -> None:
    """Leave the note where it may stand. A full disk leaves none: the hold is no less valid."""
    body = json.dumps(asdict(replace(note, label=clean(note.label))), ensure_ascii=False)
    _write(lock, _MAGIC + body.encode("utf-8", "replace"))


def clear_note(lock: LockFile) -> None:
    """Blank the note of a lock that is about to be released."""
    _write(lock, _MAGIC)


def live_note(lock: LockFile, lines: Sequence[LockLine], busy: Callable[[], bool]) -> Note | None:
    """The note of whoever holds `lock` right now, or None.

    Args:
        lock: the file, locked by somebody else or free.
        lines: its lines in /proc/locks.
        busy: asked where these show no holder. Should there be one all the same, it lives outside our pid
            namespace, and the note is believed.
    """
    found = [note for note in (_parse(_read(lock)), _beside(lock.place)) if note]
    openers = {line.pid for line in lines if not line.waiting}
    if not openers:
        return found[0] if found and busy() else None
    return next((note for note in found if note.pid in openers), None)


def _write(lock: LockFile, content: bytes) -> None:
    block = content.ljust(_BLOCK - 1) + b"\n"
    if lock.place.ours and lock.writable and _is_ours(lock):
        with contextlib.suppress(OSError):
            os.pwrite(lock.fd, block, 0)
    if lock.place.note is None:
        return
    with (
        contextlib.suppress(OSError, RefusedError),
        contextlib.closing(open_lock(_as_place(lock.place))) as beside,
    ):
        if beside.writable and _is_ours(beside):
            os.pwrite(beside.fd, block, 0)


def _as_place(place: Place) -> Place:
    assert place.note is not None
    return replace(place, path=place.note, ours=True, note=None)


def _beside(place: Place) -> Note | None:
    lock = peek_lock(_as_place(place)) if place.note else None
    if lock is None:
        return None
    with contextlib.closing(lock):
        return _parse(_read(lock))


def _read(lock: LockFile) -> bytes:
    try:
        return os.pread(lock.fd, _BLOCK, 0)
    except OSError:
        return b""


def _is_ours(lock: LockFile) -> bool:
    """Empty or written by us: a file with anything else in it is somebody's, whatever its name."""
    content = _read(lock)
    return not content or content.startswith(_MAGIC)


def _parse(block: bytes) -> Note | None:
    if not block.startswith(_MAGIC):
        return None
    try:
        fields = json.loads(block.removeprefix(_MAGIC))
        digest, pid, since, label = (fields[key] for key in ("digest", "pid", "since_ns", "label"))
    except (ValueError, KeyError, TypeError):
        return None
    if not (isinstance(digest, str) and isinstance(label, str) and type(pid) is int and type(since) is int):
        return None
    return Note(digest, pid, since, clean(label))
