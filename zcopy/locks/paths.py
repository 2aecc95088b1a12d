"""Where the locks are: one folder for all users of a box, one file per device in it.

The choice of the folder never depends on who asks: a user and root who lock in different folders do not
exclude each other. "Writable" therefore means writable for everyone.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zcopy.errors import RefusedError, UsageError
from zcopy.locks.settings import LockSettings

_SHARED: Final = 0o1777
_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class LockFolder:
    """The folder in use. `caution` says what is not as it should be, for `doctor` and a run's warnings."""

    path: Path
    prefix: str = ""
    caution: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A lock's file. `ours`: it may hold a note. `note`: a second place for the note, out of scripts' reach.

    `rank` sorts the places: it is the device's name, or the smallest of the names that share its file.
    """

    device: str
    path: Path
    ours: bool
    note: Path | None
    rank: str


def lock_folder(settings: LockSettings, *, create: bool = True) -> LockFolder:
    """The folder of the lock files; a missing one is made unless `create` is false.

    Raises UsageError when the folder that was asked for cannot be one, RefusedError when the one found is not
    safe to use.
    """
    if settings.lock_dir is not None:
        return LockFolder(_asked_for(settings.lock_dir, "ZCOPY_LOCK_DIR", create))
    if settings.config_dir is not None:
        return LockFolder(_asked_for(settings.config_dir, "the configuration", create))
    folders = settings.folders
    if os.path.lexists(folders.system):
        return LockFolder(folders.system, caution=_caution(folders.system))
    if _is_shared(folders.run_lock):
        return LockFolder(folders.run_lock, prefix="zcopy-")
    if create or os.path.lexists(folders.fallback):
        _make_shared(folders.fallback)
        return LockFolder(folders.fallback, caution=_caution(folders.fallback))
    return LockFolder(folders.fallback)


def place(device: str, settings: LockSettings, folder: LockFolder) -> Place:
    """The lock file of a (resolved) device: the site's own if one is configured, else ours in `folder`."""
    own = settings.files.get(device)
    note = folder.path / f"{folder.prefix}{device}.note"
    if own is None:
        return Place(device, folder.path / f"{folder.prefix}{device}.lock", True, note, device)
    if not own.is_absolute():
        raise UsageError(
            f"the lock file of {device}, {own}, is not an absolute path", "zcopy config edits it"
        )
    rank = min(name for name, path in settings.files.items() if path == own)
    return Place(device, own, False, note, min(rank, device))


def inner_place(outer: Place, folder: LockFolder, digest: str) -> Place:
    """The lock for which those inside an outer hold queue, named by the hash of that hold.

    There is one per device of the hold. The rank stands for the device: names of one file share their queue.
    """
    path = folder.path / f"{folder.prefix}inner-{outer.rank}-{digest}"
    return Place(outer.device, path, True, None, outer.rank)


def known_devices(settings: LockSettings, folder: LockFolder) -> Iterable[str]:
    """Every device that has a lock file already or is configured to have one."""
    names = {path.stem.removeprefix(folder.prefix) for path in folder.path.glob(f"{folder.prefix}*.lock")}
    return sorted(names | set(settings.files))


def _asked_for(path: Path, source: str, create: bool) -> Path:
    if create:
        try:
            path.mkdir()
            path.chmod(_SHARED)
        except FileExistsError:
            pass
        except OSError as error:
            raise UsageError(
                f"lock folder {path} (from {source}) cannot be made: {error.strerror}",
                "make it, or name another",
            ) from error
    if path.exists() and not path.is_dir():
        raise UsageError(f"lock folder {path} (from {source}) is not a folder", "name another")
    return path.absolute()


def _is_shared(path: Path) -> bool:
    """A real folder of root's in which everyone may make files and nobody remove another's."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and stat.S_IMODE(found.st_mode) == _SHARED


def _make_shared(path: Path) -> None:
    """Make the folder, mode 1777 whatever the umask; its maker finishes what an interrupted run began."""
    try:
        path.mkdir(mode=_SHARED)
    except FileExistsError:
        if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.geteuid():
            return
    except OSError as error:
        raise RefusedError(
            f"lock folder {path} cannot be made: {error.strerror}", "set ZCOPY_LOCK_DIR to a folder"
        ) from error
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) != _SHARED:
            os.fchmod(fd, _SHARED)
    finally:
        os.close(fd)


def _caution(path: Path) -> str | None:
    """What to know about a folder that was found. Raises RefusedError when it must not be used at all.

    Root's folder is taken as it is. Another user's must be 1777 like one made by us; that user could still
    remove the locks in it, hence the caution. Its maker may be between mkdir and chmod: look again.
    """
    for attempt in range(_ATTEMPTS):
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            break
        if found.st_uid == 0 and (found.st_mode & stat.S_ISVTX or not found.st_mode & stat.S_IWOTH):
            return None
        if stat.S_IMODE(found.st_mode) == _SHARED:
            if found.st_uid == os.geteuid():
                return None
            return f"lock folder {path} belongs to uid {found.st_uid}, who can remove the locks in it"
        if attempt < _ATTEMPTS - 1:
            time.sleep(_PAUSE_S)
    raise RefusedError(
        f"lock folder {path} is not safe: uid {found.st_uid}, mode {stat.filemode(found.st_mode)}",
        f"remove it, or as root: install -d -m 1777 {path}",
    )
