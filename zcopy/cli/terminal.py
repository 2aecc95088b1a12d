"""What the user's terminal, locale and environment allow: decided here and nowhere else."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Final

from zcopy.render.cells import own_text

_OURS: Final = "—─µ→"
_DUMB: Final = frozenset(("dumb", "unknown"))


def wants_colour(environ: Mapping[str, str], isatty: bool) -> bool:
    """Whether to emit escapes, by the first rule that speaks.

    NO_COLOR not empty: no. FORCE_COLOR or CLICOLOR_FORCE not empty and not 0: yes. CLICOLOR=0: no. TERM dumb
    or unknown: no. Otherwise whether it is a terminal.
    """
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    if environ.get("CLICOLOR") == "0" or is_dumb(environ):
        return False
    return isatty


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether the terminal knows no escapes, so that nothing can be drawn over."""
    return environ.get("TERM", "").lower() in _DUMB


def is_ascii(codeset: str, encoding: str) -> bool:
    """Whether our own dashes and lines must be ASCII.

    Args:
        codeset: the locale's (nl_langinfo). Under LC_ALL=C Python itself writes UTF-8, the terminal need not.
        encoding: the stream's.
    """
    return not (_can_encode(codeset) and _can_encode(encoding))


def _can_encode(name: str) -> bool:
    try:
        codecs.encode(_OURS, name)
    except (LookupError, UnicodeError):
        return False
    return True


def width(environ: Mapping[str, str], terminal: int | None) -> int | None:
    """Columns to draw in: COLUMNS, else the terminal's own, else None for as wide as it takes."""
    asked = environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return terminal or None


def one_line(text: str, ascii: bool = False) -> str:
    """`text` for a message line: line breaks become spaces, other control characters visible escapes."""
    return own_text(" ".join(text.split()), ascii)
