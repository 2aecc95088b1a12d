"""A whole file: its head, its sections, its checkpoints, and the verdict on its length."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zcopy.errors import UsageError
from zcopy.seqstate.checkpoints import Checkpoint
from zcopy.seqstate.orders import Follower, Reading
from zcopy.seqstate.reader import OddError, Reader, ShortError
from zcopy.seqstate.sections import KvSection, Section

MAGIC: Final = b"qsgg"  # 0x67677371, "ggsq", in little endian
VERSIONS: Final = (2, 4)
_OTHERS: Final = {
    b"nsgg": "a llama.cpp session of all sequences",
    b"GGUF": "a GGUF model",
    b"ggsq": "a sequence state of a big-endian machine",
}
_UNKNOWN: Final = "not a state that a known model has"
_SERVER: Final = b"\xff" * 4  # the first word of a server's token payload
_DSV4: Final = b"DSV4"


@dataclass(frozen=True, slots=True)
class StateFile:
    """What was found, complete or not.

    `cut`: it ends before it should. `usable`: every section is there, so that a server gets what it reads, whatever is
    missing or too much behind them. `expected`: bytes that a whole file would have, None where that is not known;
    `exact` is false where it takes missing layers to be like those that are there. `also`: what else the file may
    be, in sentences.
    """

    size: int
    verdict: str
    version: int | None = None
    tokens: int | None = None
    media: int | None = None
    roles: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    whole: bool = False
    cut: bool = False
    usable: bool = False
    expected: int | None = None
    exact: bool = True
    also: tuple[str, ...] = ()
    read_bytes: int = 0

    @property
    def cells(self) -> int:
        """Cells of the first section: what the sequence has."""
        return self.sections[0].cells if self.sections else 0


class UnreadableError(UsageError):
    """There is no such file, or none that can be read; the message says why, without the path."""


def inspect(path: Path) -> StateFile:
    """Reads what there is to read, and no tensor. Raises UnreadableError where there is no such regular file."""
    try:
        _check_regular(path.stat())  # before: to open a device can do something to it
        # O_NONBLOCK: a FIFO that took the file's place must not hold us.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UnreadableError(_reason(error)) from error
    try:
        found = os.fstat(fd)
        _check_regular(found)
        return _inspect(fd, found.st_size)
    except OSError as error:
        raise UnreadableError(_reason(error)) from error
    finally:
        os.close(fd)


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError("not a regular file")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _inspect(fd: int, size: int) -> StateFile:
    reader = Reader(fd, size)
    state = replace(_read(reader), read_bytes=reader.read_bytes)
    after = os.fstat(fd).st_size
    if after == size:
        return state
    verdict = f"changed while it was read: it had {_bytes(size)}, then {_bytes(after)}"
    return replace(state, verdict=verdict, whole=False, cut=False, usable=False, expected=None, also=())


def _read(reader: Reader) -> StateFile:
    state = StateFile(reader.size, "")
    try:
        state = replace(state, version=_version(reader))
        state, at = _tokens(reader, state)
        if reader.peek(at, 4) == _DSV4:
            raise OddError("not read further: DeepSeek V4's caches (DSV4) follow the tokens")
    except ShortError as short:
        return replace(state, verdict=_truncated(short, None, reader.size, exact=False), cut=True)
    except OddError as odd:
        return replace(state, verdict=str(odd))
    return _judged(state, list(Follower(reader, state.version or 0).readings(at)))


def _version(reader: Reader) -> int:
    head = reader.peek(0, 4)
    if not MAGIC.startswith(head):
        raise OddError(f"not a sequence state: {_OTHERS.get(head) or f'it begins with 0x{head[::-1].hex()}'}")
    reader.need(0, len(MAGIC), "the magic")
    (version,) = reader.unpack("I", 4, "the version")
    if version not in VERSIONS:
        raise OddError(f"a sequence state of version {version}, of which nothing is known (2 and 4 are)")
    return int(version)


def _tokens(reader: Reader, state: StateFile) -> tuple[StateFile, int]:
    """Plain ids, or a server's payload: a marker, its version, how many ids, the ids, how many media. And the end."""
    words = int(reader.unpack("I", 8, "the number of token words")[0])
    reader.need(12, 4 * words, "the tokens")
    end = 12 + 4 * words
    if state.version != 4 or reader.peek(12, 4 * min(words, 1)) != _SERVER:
        return replace(state, tokens=words), end
    if words < 4 or reader.unpack("I", 16, "the tokens") != (1,):
        return state, end  # a payload of another version: how many tokens it has is not known
    (count,) = reader.unpack("I", 20, "the tokens")
    if count + 4 > words:
        raise OddError(f"{_UNKNOWN}: {words} token words cannot hold {count} tokens")
    (media,) = reader.unpack("I", 24 + 4 * count, "the number of media")
    return replace(state, tokens=count, media=media), end


def _judged(state: StateFile, readings: list[Reading]) -> StateFile:
    """By the reading that comes to the file's length; else by the one that is cut furthest, or that ends furthest."""
    ended = [each for each in readings if each.fault is None]
    cut = [each for each in readings if each.cut]
    fitting = [each for each in ended if each.end == state.size]
    if fitting:
        return _whole(state, fitting, cut)
    if cut:
        best = max(cut, key=_depth)
        return _cut(state, best, [each for each in ended if each.sections != best.sections])
    odd = max((each for each in readings if each.odd), key=_depth, default=readings[0])
    if ended:
        return _trailing(state, max(ended, key=lambda each: each.end or 0), odd)
    return replace(_with(state, odd), verdict=f"{_UNKNOWN}: {odd.fault}")


def _depth(reading: Reading) -> tuple[int, ...]:
    """How far a reading gets that did not end: by how many tensors, and what speaks for its last section."""
    tensors = sum(
        len(each.k) + len(each.v) if isinstance(each, KvSection) else len(each.states)
        for each in reading.sections
    )
    return reading.sections_whole, tensors, reading.begun, reading.sections[-1].at


def _hardly_begun(section: Section) -> bool:
    """Whether all that speaks for what is cut (V, or a section) is a few bytes of its head."""
    if isinstance(section, KvSection):
        return not section.v and len(section.k) in (0, section.layers)
    return not section.states


def _with(state: StateFile, reading: Reading) -> StateFile:
    return replace(
        state, roles=reading.roles, sections=reading.sections, checkpoints=reading.checkpoints,
        usable=reading.sections_whole, expected=reading.end, exact=reading.exact,
    )  # fmt: skip


def _whole(state: StateFile, fitting: list[Reading], cut: list[Reading]) -> StateFile:
    best = fitting[0]
    others = dict.fromkeys(_names(each) for each in fitting if each.sections != best.sections)
    others.pop(_names(best), None)
    also = [f"its length is also that of {each}" for each in others]
    last = best.sections[-1]
    if isinstance(last, KvSection) and not last.has_v and not best.checkpoints:
        with_v = [each for each in cut if each.sections[-1].at == last.at and not each.sections_whole]
        also += [f"if its model keeps V: {_verdict(each, state.size)}" for each in with_v[:1]]
    whole = replace(_with(state, best), verdict="whole", whole=True, expected=state.size, exact=True)
    return replace(whole, also=tuple(also))


def _cut(state: StateFile, best: Reading, ended: list[Reading]) -> StateFile:
    state = replace(_with(state, best), verdict=_verdict(best, state.size), cut=True)
    if best.sections_whole or not ended or not _hardly_begun(best.sections[-1]):
        return state
    other = max(ended, key=lambda each: each.end or 0)
    without = " without V" if other.roles == best.roles else ""
    also = f"if it is a state of {_names(other)}{without} alone: {_verdict(other, state.size)}"
    return replace(state, also=(also,))


def _trailing(state: StateFile, best: Reading, odd: Reading) -> StateFile:
    also = f"if it is a state of {_names(odd)}: {odd.fault}" if len(odd.parts) > len(best.parts) else None
    return replace(_with(state, best), verdict=_verdict(best, state.size), also=(also,) if also else ())


def _verdict(reading: Reading, size: int) -> str:
    if isinstance(reading.fault, ShortError):
        return _truncated(reading.fault, reading.end, size, exact=reading.exact)
    return f"trailing {_bytes(size - (reading.end or 0))}"


def _truncated(short: ShortError, end: int | None, size: int, *, exact: bool) -> str:
    """By how much, where that can be told."""
    if end is None:
        return f"truncated by at least {_bytes(short.missing)} at {short.what}"
    return f"truncated by {'' if exact else 'about '}{_bytes(end - size)} at {short.what}"


def _names(reading: Reading) -> str:
    return " and ".join(reading.roles)


def _bytes(count: int) -> str:
    return f"{count} byte{'' if count == 1 else 's'}"
