"""Reading a log: once, or as it grows, through rotation and truncation."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from zcopy.ingest.reading import Turn

_CHUNK: Final = 256 * 1024
_SEEN: Final = 64  # bytes before the place of reading by which a log that was written anew is known


def read_all(fd: int) -> Iterator[bytes]:
    """Everything up to the end, which on a pipe is the end of its writers. Raises OSError."""
    while chunk := os.read(fd, _CHUNK):
        yield chunk


class Follower:
    """A log by its name, like `tail -F`: `pieces` never ends. Owns the descriptor until `close`.

    A log that is not there yet is waited for. One that was renamed is read on until the new file of its name has got
    something, since until then its writer may not have turned to it.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        """`new`: only what is written from now on. Raises OSError, also for what is no regular file."""
        self._path = path
        self._fd = -1
        self._at = 0
        self._seen = b""
        self._begins_inside = False
        if self._open() and new:
            self._skip()

    @property
    def size(self) -> int:
        """Bytes of the file as it is now; 0 before there is one."""
        return os.fstat(self._fd).st_size if self._fd >= 0 else 0

    @property
    def there(self) -> bool:
        return self._fd >= 0

    def pieces(self) -> Iterator[bytes | Turn]:
        """What is new, and IDLE whenever there is nothing new: then it is time to wait. Raises OSError."""
        if self._begins_inside:
            yield Turn.INSIDE
        while True:
            yield self._next()

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> bytes | Turn:
        if self._fd < 0 and not self._open():
            return Turn.IDLE
        if self._cut():
            self._at, self._seen = 0, b""
            return Turn.TRUNCATED
        successor = self._successor()
        if chunk := os.pread(self._fd, _CHUNK, self._at):
            self._at += len(chunk)
            self._seen = (self._seen + chunk[-_SEEN:])[-_SEEN:]
            return chunk
        if not successor:
            return Turn.IDLE
        self.close()
        self._at, self._seen = 0, b""
        return Turn.ROTATED

    def _cut(self) -> bool:
        """Whether what was read is not there any more."""
        if os.fstat(self._fd).st_size < self._at:
            return True
        return os.pread(self._fd, len(self._seen), self._at - len(self._seen)) != self._seen

    def _successor(self) -> bool:
        """Whether another file, that is not empty, has the name. Asked before the old one is read for the last time."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino) and there.st_size > 0

    def _open(self) -> bool:
        """Whether the file is there."""
        try:
            # Non-blocking, so that a FIFO that has got the name is refused and not waited for.
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            self.close()
            raise OSError(errno.EINVAL, "no regular file, so it cannot be followed", str(self._path))
        return True

    def _skip(self) -> None:
        self._at = self.size
        self._seen = os.pread(self._fd, _SEEN, max(0, self._at - _SEEN))
        self._begins_inside = bool(self._seen) and not self._seen.endswith(b"\n")
