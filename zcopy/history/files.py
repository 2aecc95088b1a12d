"""Private folders and files, and setting a corrupt store aside."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Final, TypeAlias

Owner: TypeAlias = tuple[int, int] | None
Identity: TypeAlias = tuple[int, int]
"""Device and inode: the same path may be another file by the next look."""

_PAUSE: Final = 0.01


def make_folder(folder: Path, owner: Owner) -> None:
    """Make a folder 0700 whatever the umask, with the parents it lacks; those that exist stay as they are."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        try:
            path.mkdir(0o700)
        except FileExistsError:  # another first run was faster
            continue
        path.chmod(0o700)
        if owner:
            os.chown(path, *owner, follow_symlinks=False)


def create_private(path: Path, owner: Owner) -> int | None:
    """Create a file 0600 whatever the umask; its descriptor, or None where there is one already.

    O_EXCL follows no link that somebody else planted. SQLite gives -wal and -shm the file's mode and owner.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    os.fchmod(fd, 0o600)
    if owner:
        os.fchown(fd, *owner)
    return fd


def is_private(folder: Path, owner: Owner) -> bool:
    """Whether a folder is really one, ours (or `owner`'s), and closed to everybody else."""
    try:
        facts = folder.lstat()
    except OSError:
        return False
    trusted = {os.geteuid(), *([owner[0]] if owner else [])}
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid in trusted and not facts.st_mode & 0o077


def identity(path: Path) -> Identity:
    """Which file is at `path` now. Raises OSError where there is none."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def is_at(path: Path, file: Identity) -> bool:
    """Whether it is this file that is at `path`."""
    try:
        return identity(path) == file
    except FileNotFoundError:
        return False


@contextmanager
def folder_lock(folder: Path, timeout: float) -> Iterator[bool]:
    """Hold flock(2) on a folder; yields whether it was got within `timeout` seconds.

    It orders what SQLite's own locks cannot, because the file itself comes or goes. Where a filesystem has no
    such lock on folders the caller goes on without: it guards warnings and tidiness, not rows.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _flock(fd, timeout)
    finally:
        os.close(fd)


def _flock(fd: int, timeout: float) -> bool:
    for _ in range(1 + int(timeout / _PAUSE)):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_PAUSE)
        except OSError:
            return False
        else:
            return True
    return False


def set_aside(db: Path, corrupt: Identity, stamp: str, timeout: float) -> Path | None:
    """Rename a corrupt store to ``NAME.corrupt-STAMP``, and its -wal and -shm with it.

    Args:
        corrupt: the file that was found corrupt; when another is there now, somebody else has set it aside.
        stamp: the time for the name.

    Returns: the new path, or None when there was nothing left to do. Raises OSError.
    """
    with folder_lock(db.parent, timeout):
        if not is_at(db, corrupt):
            return None
        return _rename(db, _free(db.with_name(f"{db.name}.corrupt-{stamp}")))


def _free(path: Path) -> Path:
    """`path`, or the first of path-2, path-3 … that is not taken."""
    taken, number = path, 1
    while taken.exists():
        number += 1
        taken = path.with_name(f"{path.name}-{number}")
    return taken


def _rename(db: Path, aside: Path) -> Path:
    # The log first: a new store must never stand beside the old one's log, SQLite would replay it.
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            db.with_name(db.name + suffix).rename(aside.with_name(aside.name + suffix))
    return db.rename(aside)
