"""A place where providers that somebody else starts can be met: a Unix socket in the file system."""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from zcopy.errors import MeasurementError, RefusedError
from zcopy.native.calls import refused

_BACKLOG: Final = 16
_MOST_PATH: Final = 107  # bytes of sun_path (unix(7))


class Listener:
    """Listens at `path` until `close`, which removes it again. Only its own user can connect (mode 0600)."""

    def __init__(self, path: Path) -> None:
        """Raises RefusedError where something else is in that place, or nothing can be put there."""
        self.path = path
        self._made: tuple[int, int] | None = None
        if len(os.fsencode(path)) > _MOST_PATH:
            raise RefusedError(f"--listen {path}: a socket's path has at most {_MOST_PATH} bytes")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _clear(path)
            mask = os.umask(0o177)
            try:
                self._socket.bind(os.fsencode(path))
            finally:
                os.umask(mask)
            made = path.lstat()
            self._made = made.st_dev, made.st_ino
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)
        except OSError as error:
            self.close()
            raise refused(f"--listen {path}", error) from error

    def accept(self, deadline_ns: int, ticks: Callable[[], int]) -> int:
        """The descriptor of the next connection, which is the caller's. Raises MeasurementError where none comes."""
        end = ticks() + deadline_ns
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        while True:
            if not waiting.poll(max(0, (end - ticks()) // 1_000_000)):
                raise MeasurementError(f"no provider came to {self.path} in time")
            try:
                return self._socket.accept()[0].detach()
            except (BlockingIOError, ConnectionAbortedError):  # gone again before it was taken
                continue

    def close(self) -> None:
        """Idempotent; leaves alone what somebody else has put in its place since."""
        self._socket.close()
        if self._made is None:
            return
        try:
            here = self.path.lstat()
            if (here.st_dev, here.st_ino) == self._made:
                self.path.unlink()
        except FileNotFoundError:
            pass
        self._made = None

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _clear(path: Path) -> None:
    """Removes a socket that a killed run has left: one that nobody listens at. Raises OSError for anything else."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fsencode(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:  # its queue is full: somebody listens
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
