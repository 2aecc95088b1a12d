"""Examples at the foot of a help text: lines that fit the terminal and can still be pasted into a shell."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

_WORD: Final = r"""(?:[^\s"']|"[^"]*"|'[^']*')+"""
_UNIT: Final = re.compile(rf"-\S+ (?!-){_WORD}|{_WORD}")  # an option stays with what it takes
_INDENT: Final = "  "
_FURTHER: Final = "      "


def examples(*lines: str) -> str:
    """An epilog of examples for ``app.command(epilog=…)``; what follows ``  # `` in a line is a remark."""
    return "\n".join(("Examples:", *(f"{_INDENT}{line}" for line in lines)))


def fitted(epilog: str, width: int) -> Iterator[str]:
    """The lines of an epilog; those of more than `width` characters are broken.

    A remark then stands above its command, and a command goes on after a backslash; words are never cut.
    """
    for line in epilog.splitlines():
        if len(line) <= width:
            yield line
        else:
            command, _, remark = line.strip().partition(" # ")
            yield from textwrap.wrap(remark, width, initial_indent="  # ", subsequent_indent="  # ")
            yield from _broken(command, width)


def _broken(command: str, width: int) -> Iterator[str]:
    head, *units = _UNIT.findall(command)
    line = _INDENT + head
    for number, unit in enumerate(units, 1):
        after = " \\" if number < len(units) else ""
        if len(f"{line} {unit}{after}") > width:
            yield f"{line} \\"
            line = _FURTHER + unit
        else:
            line = f"{line} {unit}"
    yield line
