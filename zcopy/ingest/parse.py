"""A line as it stands in a log to what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Final

from zcopy.ingest import handoff, llama, phases
from zcopy.ingest.quantities import DoubtError
from zcopy.ingest.record import Record

__all__ = ("DoubtError", "Record", "clean", "parse")

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_MESSAGES: Final = ("log", "MESSAGE", "message", "msg")  # of docker, journald, and what engines use


def parse(line: bytes, by: Container[str] = ()) -> tuple[Record, ...]:
    """Every measurement in the line; none where it has none. `by`: see phases.py.

    Raises DoubtError for a line that has the form of one that is known and says what cannot be; never anything else.
    """
    if not _may_matter(line):
        return ()
    text = _unwrapped(clean(line))
    return handoff.read(text) or phases.read(text, by) or llama.read(text)


def _may_matter(line: bytes) -> bool:
    """Whatever is understood has one of these. Most lines have none, and this is all the time they take."""
    return (
        b" time" in line
        or b"[p" in line
        or b"handoff" in line
        or b"timings" in line
        or b" took " in line
        or b"\x1b" in line
    )


def clean(line: bytes) -> str:
    """Text without colours and without what cannot be decoded."""
    return _plain(line.decode("utf-8", "replace"))


def _plain(text: str) -> str:
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def _unwrapped(text: str) -> str:
    """The message of a line that a container's or the system's log keeps as JSON."""
    if not text.startswith("{"):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    messages = (found.get(name) for name in _MESSAGES) if isinstance(found, dict) else ()
    return next((_plain(each) for each in messages if isinstance(each, str)), text)
