"""The files of the file route: in a folder of their own that no run leaves behind, not even a killed one."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from zcopy.errors import MeasurementError
from zcopy.host.mounts import filesystem
from zcopy.native.calls import failed

_PREFIX: Final = "handoff-"
_LOCK: Final = "lock"


class StateFolder:
    """A private folder below `folder`, locked while its run lives; those that nobody locks are swept away first."""

    def __init__(self, folder: Path) -> None:
        """Raises MeasurementError where the folder cannot be made or written."""
        self._lock = -1
        self._folder: Path | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            sweep(folder)
            while not self._locked(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))):
                self.close()
        except FileExistsError as error:
            raise MeasurementError(f"--state-dir {folder} is not a folder") from error
        except OSError as error:
            self.close()
            raise failed(f"--state-dir {folder}", error) from error
        self.filesystem = filesystem(folder)

    def _locked(self, folder: Path) -> bool:
        """Makes `folder` ours; False where another run's sweep took it before the lock was there."""
        self._folder = folder
        try:
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return False
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return os.fstat(self._lock).st_nlink > 0

    @property
    def path(self) -> Path:
        """Raises MeasurementError once it is closed."""
        if self._folder is None:
            raise MeasurementError("the folder of state files is closed")
        return self._folder

    def close(self) -> None:
        """Removes the folder with all that is in it. Idempotent."""
        if self._folder is not None:
            _remove(self._folder)
            self._folder = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class StateFile(StateFolder):
    """A path for each request: always the same one, or (fresh) a new one that goes after use."""

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        """Raises MeasurementError where the folder cannot be made or written."""
        super().__init__(folder)
        self._fresh = fresh
        self._count = 0

    def next(self) -> str:
        """The path of the coming request."""
        self._count += self._fresh
        return str(self.path / f"state-{self._count}.bin")

    def used(self) -> None:
        """The request is over: a fresh file goes."""
        if self._fresh and self._folder is not None:
            (self._folder / f"state-{self._count}.bin").unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Removes what runs that were killed have left in `folder`."""
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if left.lstat().st_uid != os.geteuid() or left.is_symlink():
                continue  # in a folder that others can write to, nobody else chooses what we remove
            try:
                fd = os.open(left / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except (
                FileNotFoundError
            ):  # killed before it had its lock, or about to make it: then it tries again
                left.rmdir()
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(left)
            finally:
                os.close(fd)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()
