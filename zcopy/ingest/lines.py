"""From bytes as they come to whole lines, in bounded memory."""

from __future__ import annotations

from typing import Final

MOST_LINE: Final = 1 << 20  # bytes; a longer line is not kept


class Splitter:
    """Hands out lines without their end, and None for each that was too long or of which a part was lost.

    NUL bytes are left out: a log that was cut under its writer begins with them, by the gigabyte.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._lost = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The lines that end in these bytes."""
        if b"\0" in chunk:
            chunk = chunk.translate(None, b"\0")  # many times as fast as replace
        first, *rest = chunk.split(b"\n")
        self._append(first)
        if not rest:
            return []
        *whole, last = rest
        lines = [self._take(), *(each if len(each) <= MOST_LINE else None for each in whole)]
        self._append(last)
        return lines

    def end(self) -> list[bytes | None]:
        """The last line, which has no end of its own: nothing follows."""
        return [self._take()] if self._size or self._lost else []

    def drop(self) -> list[bytes | None]:
        """The line under way will never be whole."""
        self._lost = bool(self._size or self._lost)
        return self.end()

    def lose(self) -> None:
        """The rest of the line under way belongs to something that was not seen."""
        self._lost = True

    def _append(self, part: bytes) -> None:
        self._size += len(part)
        if self._lost or self._size > MOST_LINE:
            self._lost = True
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _take(self) -> bytes | None:
        line = None if self._lost else b"".join(self._parts)
        self._parts.clear()
        self._size, self._lost = 0, False
        return line
