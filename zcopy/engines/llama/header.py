"""A GGUF's metadata, read from the file without the tensors and, whatever its counts say, in bounded time and memory.

The package gguf has a reader too, which takes the counts in a file for granted: a header of 60 bytes keeps it busy
for ever. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from zcopy.errors import MeasurementError
from zcopy.native.calls import failed

Value: TypeAlias = int | float | bool | str | tuple[int | float | bool, ...] | None

_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT: Final = 8
_ARRAY: Final = 9
_VERSIONS: Final = (2, 3)
_MOST_BYTES = 32 << 20  # that are looked through: the largest vocabularies take about 12 MB
_MOST_KEPT: Final = 4096  # numbers of an array: what there is one of for each layer


def metadata(path: Path) -> Mapping[str, Value]:
    """Every key with its value; None for arrays of texts and for long ones, which are skipped.

    Raises MeasurementError for a file that is not there or is not a whole GGUF header.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # a FIFO would wait for its writer
            raise ValueError("it is no regular file")
        with path.open("rb") as file:
            return _Header(file, min(about.st_size, _MOST_BYTES)).fields()
    except OSError as error:
        raise failed(str(path), error) from error
    except ValueError as error:
        raise MeasurementError(f"{path} is no whole GGUF header: {error}") from None


class _Header:
    """Reads on from where the last read ended. Everything raises ValueError for what cannot be."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file, self._at, self._end = file, 0, end

    def fields(self) -> dict[str, Value]:
        if self._bytes(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        if (version := self._number("I")) not in _VERSIONS:
            raise ValueError(f"version {version}")
        self._number("Q")  # tensors
        found: dict[str, Value] = {}
        for _ in range(self._count("keys")):
            key = self._text()
            found[key] = self._value(int(self._number("I")))
        return found

    def _value(self, kind: int) -> Value:
        if kind == _TEXT:
            return self._text()
        if kind == _ARRAY:
            return self._array(int(self._number("I")))
        return self._number(self._code(kind))

    def _array(self, kind: int) -> Value:
        if kind == _TEXT:
            for _ in range(self._count("texts")):
                self._skip(self._count("bytes of text"))
            return None
        code = self._code(kind)
        size, count = struct.calcsize(code), self._count("numbers")
        if count > _MOST_KEPT:
            self._skip(count * size)
            return None
        return struct.unpack(f"<{count}{code}", self._bytes(count * size))

    def _code(self, kind: int) -> str:
        if kind not in _NUMBERS:
            raise ValueError(f"a value of type {kind}")
        return _NUMBERS[kind]

    def _text(self) -> str:
        return self._bytes(self._count("bytes of text")).decode("utf-8", "replace")

    def _count(self, what: str) -> int:
        """Of things that take a byte each at least."""
        count = int(self._number("Q"))
        if count > self._end:
            raise ValueError(f"it claims {count} {what} in {self._end} bytes")
        return count

    def _number(self, code: str) -> int | float | bool:
        (value,) = struct.unpack(f"<{code}", self._bytes(struct.calcsize(code)))
        return value  # type: ignore[no-any-return]

    def _bytes(self, count: int) -> bytes:
        self._room(count)
        data = self._file.read(count)
        if len(data) < count:
            raise ValueError("it is being cut short")
        return data

    def _skip(self, count: int) -> None:
        self._room(count)
        self._file.seek(count, os.SEEK_CUR)

    def _room(self, count: int) -> None:
        self._at += count
        if self._at > self._end:
            raise ValueError(f"it does not end within {self._end} bytes")
