"""A whole file: its head, its sections, its checkpoints, and the verdict on its length.

The file does not say which sections follow the first one. Every order that a known model has is tried; the one that
comes to the file's length is the one, and of those that do not the one that goes furthest.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zcopy.errors import UsageError
from zcopy.seqstate.checkpoints import Checkpoint, read_checkpoints
from zcopy.seqstate.reader import OddError, Reader, ShortError
from zcopy.seqstate.sections import (
    CHECKPOINTS,
    MROPE,
    PLAIN,
    KvSection,
    RecurrentSection,
    Section,
    not_begun,
    read_kv,
    read_recurrent,
)

MAGIC: Final = 0x67677371  # "ggsq"
VERSIONS: Final = (2, 4)
_OTHERS: Final = {0x6767736E: "a llama.cpp session of all sequences", 0x46554747: "a GGUF model"}
_SERVER: Final = 0xFFFFFFFF  # the first word of a server's token payload


@dataclass
class StateFile:
    """What was found, complete or not. `expected`: bytes that a whole file would have, None where that is not known."""

    size: int
    version: int | None = None
    tokens: int | None = None
    media: int | None = None
    sections: list[Section] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    verdict: str = ""
    whole: bool = False
    expected: int | None = None
    read_bytes: int = 0

    @property
    def cells(self) -> int:
        """Cells of the first section: what the sequence has."""
        return self.sections[0].cells if self.sections else 0


def inspect(path: Path) -> StateFile:
    """Reads what there is to read, and no tensor. Raises UsageError where there is no such regular file to read."""
    try:
        # O_NONBLOCK: a FIFO that nobody writes to must not hold us.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is no regular file")
        reader = Reader(fd, found.st_size)
        state = _read(reader)
        state.read_bytes = reader.read_bytes
        return state
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    finally:
        os.close(fd)


def _read(reader: Reader) -> StateFile:
    state = StateFile(reader.size)
    try:
        at = _head(reader, state)
    except ShortError as short:
        return _cut(state, short, None)
    except OddError as odd:
        state.verdict = str(odd)
        return state
    return _best(reader, state, at)


def _head(reader: Reader, state: StateFile) -> int:
    (magic,) = reader.unpack("I", 0, "the magic")
    if magic != MAGIC:
        known = _OTHERS.get(magic)
        raise OddError(f"not a sequence state: {known or f'it begins with 0x{magic:08x}'}")
    (version,) = reader.unpack("I", 4, "the version")
    if version not in VERSIONS:
        raise OddError(f"a sequence state of version {version}, of which nothing is known (2 and 4 are)")
    state.version = version
    words = int(reader.unpack("I", 8, "the number of token words")[0])
    reader.need(12, 4 * words, "the tokens")
    _tokens(reader, state, words)
    return 12 + 4 * words


def _tokens(reader: Reader, state: StateFile, words: int) -> None:
    """Plain ids, or a server's payload: a marker, its version, how many ids, the ids, how many media."""
    state.tokens = words
    if words < 4 or state.version != 4:
        return
    marker, version, count = reader.unpack("III", 12, "the tokens")
    if marker != _SERVER or version != 1:
        return
    if count + 4 > words:
        raise OddError(f"{words} token words cannot hold {count} tokens")
    state.tokens = count
    (state.media,) = reader.unpack("I", 12 + 12 + 4 * count, "the number of media")


@dataclass
class _Try:
    """One order of sections, as far as it went."""

    sections: list[Section] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    end: int = 0
    short: ShortError | None = None
    odd: OddError | None = None
    in_checkpoints: bool = False

    @property
    def begun(self) -> bool:
        """Whether what is cut is more than a guess: something of its last section is there that makes sense."""
        last = self.sections[-1]
        if isinstance(last, RecurrentSection):
            return bool(last.states)
        return len(self.sections) == 1 or 0 < last.announced <= self.sections[0].cells


_Step = Callable[[Reader, int, int, _Try], int]


def _kv(words: int) -> _Step:
    def step(reader: Reader, at: int, version: int, trial: _Try) -> int:
        section = KvSection(where=" of the second section" if trial.sections else "")
        trial.sections.append(section)
        return read_kv(reader, at, version, words, section).end

    return step


def _recurrent(reader: Reader, at: int, version: int, trial: _Try) -> int:  # noqa: ARG001
    section = RecurrentSection()
    trial.sections.append(section)
    return read_recurrent(reader, at, section).end


def _orders() -> Iterator[tuple[_Step, ...]]:
    """Full attention; with a window; hybrid; recurrent alone. Each with plain cells and with M-RoPE's."""
    for words in (PLAIN, MROPE):
        yield (_kv(words),)
        yield (_kv(words), _kv(words))
        yield (_kv(words), _recurrent)
    yield (_recurrent,)


def _best(reader: Reader, state: StateFile, at: int) -> StateFile:
    trials = []
    for order in _orders():
        trial = _follow(reader, at, state.version or 0, order)
        if trial.short is None and trial.odd is None and trial.end == reader.size:
            return _whole(state, trial)
        trials.append(trial)
    return _not_whole(state, trials)


def _follow(reader: Reader, at: int, version: int, order: tuple[_Step, ...]) -> _Try:
    trial = _Try(end=at)
    try:
        for step in order:
            trial.end = step(reader, trial.end, version, trial)
        if trial.end + 4 <= reader.size and reader.unpack("I", trial.end, "") == (CHECKPOINTS,):
            trial.in_checkpoints = True
            trial.end = read_checkpoints(reader, trial.end, trial.checkpoints)
    except ShortError as short:
        trial.short = short
    except OddError as odd:
        trial.odd = odd
    return trial


def _take(state: StateFile, trial: _Try) -> StateFile:
    state.sections, state.checkpoints = trial.sections, trial.checkpoints
    return state


def _whole(state: StateFile, trial: _Try) -> StateFile:
    state.verdict, state.whole, state.expected = "whole", True, state.size
    return _take(state, trial)


def _not_whole(state: StateFile, trials: list[_Try]) -> StateFile:
    """Cut short, or more than there should be, or nothing that is known: by the trial that explains most."""
    ended = [trial for trial in trials if trial.short is None and trial.odd is None]
    cut = [trial for trial in trials if trial.short is not None and trial.begun]
    if cut:
        best = max(cut, key=lambda trial: trial.end)
        assert best.short is not None
        return _cut(_take(state, best), best.short, best)
    if ended:
        best = max(ended, key=lambda trial: trial.end)
        state.expected = best.end
        state.verdict = f"trailing {state.size - best.end} bytes"
        return _take(state, best)
    odd = next((trial for trial in trials if trial.odd is not None), trials[0])
    state.verdict = f"not a state that a known model has: {odd.odd or odd.short}"
    return _take(state, odd)


def _cut(state: StateFile, short: ShortError, trial: _Try | None) -> StateFile:
    """By how much, where the section that is cut tells: its missing layers are like those that are there."""
    last = trial.sections[-1] if trial and not trial.in_checkpoints else None
    rest = not_begun(last) if last is not None else None
    if last is None or rest is None:
        state.verdict = f"truncated by at least {short.missing} bytes at {short.what}"
        return state
    state.expected = last.end + rest
    state.verdict = f"truncated by {state.expected - state.size} bytes at {short.what}"
    return state
