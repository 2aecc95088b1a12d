"""Reading a file here and there: never more than asked for, and by no mapping that a shrinking file would break."""

from __future__ import annotations

import os
import struct
from typing import Any, Final, TypeAlias

MOST: Final = 1 << 20  # bytes of one read


class ShortError(Exception):
    """The file ends inside `what`; `missing` bytes of it are not there."""

    def __init__(self, what: str, missing: int) -> None:
        super().__init__(what)
        self.what, self.missing = what, missing


class OddError(Exception):
    """What stands there cannot be what it should be; the text says why."""


Fault: TypeAlias = ShortError | OddError
Bytes: TypeAlias = bytes  # a method below has that name


class Reader:
    """Positional reads of an open regular file whose size is `size`; `read_bytes` counts them."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self.size = size
        self.read_bytes = 0

    def bytes(self, at: int, count: int, what: str) -> Bytes:
        """`count` (at most MOST) bytes. Raises ShortError where the file ends before, also since it was opened."""
        self.need(at, count, what)
        data = self.peek(at, count)
        if len(data) < count:
            raise ShortError(what, count - len(data))
        return data

    def peek(self, at: int, count: int) -> Bytes:
        """What there is of `count` (at most MOST) bytes."""
        data = os.pread(self._fd, min(count, MOST), at) if at < self.size else b""
        self.read_bytes += len(data)
        return data

    def unpack(self, form: str, at: int, what: str) -> tuple[Any, ...]:
        """Little-endian values. Raises ShortError."""
        return struct.unpack(f"<{form}", self.bytes(at, struct.calcsize(f"<{form}"), what))

    def need(self, at: int, count: int, what: str) -> None:
        """Raises ShortError where the file has no `count` bytes from `at` on."""
        if at + count > self.size:
            raise ShortError(what, at + count - max(at, self.size))
