"""Reading of /proc, /sys and /etc below a root folder: bounded, and never an exception.

A file that is missing, unreadable, empty or not what it should be is None (or an empty tuple): the facts of a
box are best effort, and a recorded box may hold anything.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE: Final = 4096  # what one sysfs attribute can hold
LARGE: Final = 1 << 20  # for the files of /proc that list things
_LINE: Final = 256
_ENTRIES: Final = 8192
_DIGITS: Final = re.compile(r"(\d+)")


def natural(name: str) -> tuple[str | int, ...]:
    """Sort key under which card10 comes after card2."""
    parts = _DIGITS.split(name)
    return tuple(int(part) if index % 2 else part for index, part in enumerate(parts))


def printable(text: str) -> str:
    """The first line of `text`, at most 256 characters, with control characters replaced."""
    line = text.strip("\0 \t\r\n").split("\n", 1)[0][:_LINE].strip()
    return "".join(char if char.isprintable() else "\ufffd" for char in line)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that is read as if it were `/`: the running system, or a recorded one."""

    path: Path = Path("/")

    def join(self, relative: str) -> str:
        """The path in the file system of `relative` (no leading slash)."""
        return f"{str(self.path).rstrip('/')}/{relative}"

    def raw(self, relative: str, limit: int = PAGE) -> bytes | None:
        """At most `limit` bytes of a file. Never blocks: a FIFO without a writer is empty."""
        try:
            fd = os.open(self.join(relative), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            return _read(fd, limit)
        except OSError:
            return None
        finally:
            os.close(fd)

    def text(self, relative: str, limit: int = PAGE) -> str | None:
        """A file as text, whatever its bytes; None when it is missing or empty."""
        data = self.raw(relative, limit)
        return data.decode("utf-8", "replace") if data else None

    def lines(self, relative: str, limit: int = LARGE) -> list[str]:
        """The lines of a file; none when it is missing."""
        return (self.text(relative, limit) or "").splitlines()

    def line(self, relative: str) -> str | None:
        """The first line of a file, trimmed and printable; None when there is none."""
        text = self.text(relative)
        return (printable(text) or None) if text is not None else None

    def strings(self, relative: str) -> tuple[str, ...]:
        """The NUL-separated strings of a device-tree property such as `compatible`."""
        parts = (self.text(relative) or "").split("\0")
        return tuple(clean for part in parts if (clean := printable(part)))

    def number(self, relative: str, base: int = 10) -> int | None:
        """The integer a file holds."""
        line = self.line(relative)
        try:
            return int(line, base) if line is not None else None
        except ValueError:
            return None

    def names(self, relative: str) -> tuple[str, ...]:
        """The entries of a folder in natural order; none when it is missing."""
        try:
            entries = os.listdir(self.join(relative))  # noqa: PTH208 - names only, Path objects cost more
        except (OSError, ValueError):
            return ()
        clean = [name for name in entries[:_ENTRIES] if name.isprintable()]
        return tuple(sorted(clean, key=natural))

    def link(self, relative: str) -> str | None:
        """The last component of a symbolic link's target: sysfs names a device's driver this way."""
        try:
            target = os.readlink(self.join(relative))  # noqa: PTH115
        except (OSError, ValueError):
            return None
        return printable(os.path.basename(target)) or None  # noqa: PTH119

    def exists(self, relative: str) -> bool:
        """Whether something is there (links are followed)."""
        return os.path.exists(self.join(relative))  # noqa: PTH110

    def stat(self, relative: str) -> os.stat_result | None:
        """What is known of a file, links followed."""
        try:
            return os.stat(self.join(relative))  # noqa: PTH116
        except (OSError, ValueError):
            return None


def _read(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(fd, min(limit, LARGE))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def pairs(lines: list[str], separator: str = ":") -> dict[str, str]:
    """``key: value`` lines as a mapping; lines without the separator are left out, the first key wins."""
    found: dict[str, str] = {}
    for line in lines:
        key, mark, value = line.partition(separator)
        if mark:
            found.setdefault(key.strip(), value.strip())
    return found


def integer(text: str | None, base: int = 10) -> int | None:
    """The integer a text is, or None."""
    try:
        return int(text, base) if text is not None and len(text) <= _LINE else None
    except ValueError:
        return None


def selected(text: str | None) -> str | None:
    """The bracketed choice of a sysfs list: ``always [madvise] never`` is ``madvise``."""
    match = re.search(r"\[([^\]\s]{1,64})\]", text) if text else None
    return match[1] if match else None
