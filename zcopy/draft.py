"""A file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self


class Draft:
    """A hidden file beside `target` that takes its place on `commit` and goes away on `close`.

    Made at once, so that a folder or file that cannot be written is known before there is anything to write.
    Owns the descriptor and the draft. Every method raises OSError.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = target.with_name(f".{target.name}.{os.urandom(4).hex()}.tmp")
        old = target.stat() if target.exists() else None
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        # Not mkstemp: its 0600 would hide the file from whoever the umask lets read it.
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if old is not None:
            self._resemble(old)

    def commit(self, data: bytes) -> None:
        """Write everything, down to the disk, and take the target's place."""
        write_all(self._fd, data)
        os.fsync(self._fd)
        self._path.replace(self._target)
        _sync_folder(self._target.parent)
        self._release()

    def close(self) -> None:
        """Remove a draft that was not committed. Idempotent."""
        if self._fd >= 0:
            self._release()
            with contextlib.suppress(OSError):
                self._path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _resemble(self, old: os.stat_result) -> None:
        with contextlib.suppress(OSError):  # only root can give a file back to its owner
            os.fchown(self._fd, old.st_uid, old.st_gid)
        os.fchmod(self._fd, stat.S_IMODE(old.st_mode))

    def _release(self) -> None:
        os.close(self._fd)
        self._fd = -1


def write_all(fd: int, data: bytes) -> None:
    """Write until nothing is left. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some filesystems have no fsync of folders
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
