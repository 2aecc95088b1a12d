"""One lock file: opened without harm to what may have been planted at its path, locked with flock(2)."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import Final

from zcopy import limits
from zcopy.errors import MeasurementError, RefusedError, ZcopyError
from zcopy.locks import procfs
from zcopy.locks.paths import Place
from zcopy.locks.procfs import FileId

# Never O_TRUNC: the path may name somebody's file. O_NONBLOCK: a FIFO without a peer must not hang the open.
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MODE: Final = 0o666
_ATTEMPTS: Final = 6
_PAUSE_S: Final = 0.01

# They turn flock into a byte-range lock on a server, or leave it out.
_NETWORK: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "ceph", "coda", "lustre", "orangefs",
     "gfs2", "ocfs2", "gpfs", "beegfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse",
     "fuse.s3fs", "fuse.rclone", "fuse.davfs", "davfs", "fuse.curlftpfs", "fuse.juicefs", "fuse.moosefs",
     "fuse.lizardfs")
)  # fmt: skip
_REASONS: Final = {
    errno.ELOOP: "it is a symbolic link",
    errno.EISDIR: "it is a folder",
    errno.ENXIO: "it is not a regular file",
}


class LockFile:
    """The owner of an open lock file. What it locks is free again at the latest when it is closed."""

    def __init__(self, fd: int, place: Place, *, writable: bool) -> None:
        self.fd = fd
        self.place = place
        self.writable = writable
        self.locked = False
        self._owner = os.getpid()
        self.id = _identify(fd)

    def try_lock(self) -> bool:
        """Take the lock if nobody has it. Raises RefusedError when the file system cannot lock."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise _refusal(self.place.path, error) from error
        self.locked = True
        return True

    def lock(self) -> None:
        """Wait for the lock, however long it takes, in the order of arrival. Raises OSError."""
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        self.locked = True

    def busy(self) -> bool:
        """Whether somebody else has the lock, found by trying to share it: for when /proc does not say."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        return False

    def in_place(self) -> bool:
        """Whether the path still leads to this file: a lock on a removed file excludes nobody."""
        try:
            there = self.place.path.lstat()
        except OSError:
            return False
        here = os.fstat(self.fd)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def close(self) -> None:
        """Unlock and close, once. A forked copy of the owner only closes: the lock is not its own."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        if self.locked and self._owner == os.getpid():
            # Not left to close(): a child that inherited the file would keep the lock.
            fcntl.flock(fd, fcntl.LOCK_UN)
        self.locked = False
        os.close(fd)

    def __del__(self) -> None:
        self.close()


def open_lock(place: Place) -> LockFile:
    """Open the lock file, making it (mode 0666 whatever the umask) when it is missing; nothing is locked yet.

    Raises RefusedError, with what helps, on anything but a regular file on a local file system, and on one of
    ours that has a second hard link (the note would be written into somebody's file).
    """
    while True:
        try:
            fd, writable = _obtain(place.path)
        except OSError as error:
            raise _refusal(place.path, error) from error
        try:
            links = _check(fd, place)
        except BaseException:
            os.close(fd)
            raise
        if links:
            return LockFile(fd, place, writable=writable)
        os.close(fd)  # removed while it was being opened


def peek_lock(place: Place) -> LockFile | None:
    """The lock file as it is, or None when it is missing or none: nothing is made."""
    try:
        fd, writable = _open(place.path)
    except OSError:
        return None
    try:
        _check(fd, place)
    except RefusedError:
        os.close(fd)
        return None
    return LockFile(fd, place, writable=writable)


def _open(path: Path) -> tuple[int, bool]:
    try:
        return os.open(path, os.O_RDWR | _FLAGS), True
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    return os.open(path, os.O_RDONLY | _FLAGS), False  # enough to lock it


def _obtain(path: Path) -> tuple[int, bool]:
    # O_CREAT on a file that is there fails under fs.protected_regular, for root too: first open, then make.
    for attempt in range(_ATTEMPTS):
        try:
            return _open(path)
        except FileNotFoundError:
            pass
        except PermissionError:
            # Its maker may be another user with a strict umask, between open and fchmod.
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_S)
            continue
        try:
            return _make(path), True
        except FileExistsError:
            continue
    raise OSError(errno.EAGAIN, "it keeps appearing and vanishing")


def _make(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE)
    try:
        os.fchmod(fd, _MODE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(fd: int, place: Place) -> int:
    """The number of links of a file that may serve as a lock. Raises RefusedError on any other."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise _planted(place.path, f"it is a {_kind(found.st_mode)}, not a regular file")
    if place.ours and found.st_nlink > 1:
        raise _planted(place.path, f"it is one of {found.st_nlink} hard links to a file")
    kind = _file_system(fd)
    if kind in _NETWORK:
        raise RefusedError(
            f"lock file {place.path} is on a network file system ({kind}), where flock does not hold",
            "set ZCOPY_LOCK_DIR to a local folder",
        )
    return found.st_nlink


def _kind(mode: int) -> str:
    names = ((stat.S_ISFIFO, "FIFO"), (stat.S_ISDIR, "folder"), (stat.S_ISSOCK, "socket"))
    return next((name for test, name in names if test(mode)), "device node")


def _file_system(fd: int) -> str:
    info = procfs.fd_info("self", fd)
    found = procfs.mount(info.mount) if info else None
    return found.kind if found else ""


def _identify(fd: int) -> FileId:
    facts = os.fstat(fd)
    info = procfs.fd_info("self", fd)
    found = procfs.mount(info.mount) if info else None
    device = found.device if found else procfs.device_text(os.major(facts.st_dev), os.minor(facts.st_dev))
    return FileId(device, info.inode if info and info.inode is not None else facts.st_ino)


def _planted(path: Path, reason: str) -> RefusedError:
    return RefusedError(f"lock file {path} is refused: {reason}", f"see ls -l {path}, and remove it")


def _refusal(path: Path, error: OSError) -> ZcopyError:
    if limits.exhausted(error):
        return MeasurementError(f"lock file {path} cannot be opened: {limits.reason(error)}")
    if error.errno in _REASONS:
        return _planted(path, _REASONS[error.errno])
    hint = "set ZCOPY_LOCK_DIR to a folder that all users of the device can write to"
    if isinstance(error, PermissionError) and path.exists():
        hint = f"its owner or root can run: chmod 0666 {path}"
    return RefusedError(f"lock file {path} cannot be used: {error.strerror}", hint)
