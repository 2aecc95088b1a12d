"""Context checkpoints that newer servers append: earlier states to go back to, of caches that cannot be cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcopy.seqstate.reader import OddError, Reader

MAGIC: Final = b"SCKP"
_VERSION: Final = 1
_MOST: Final = 1024  # what a server reads
_HEAD: Final = 12
_PARTS: Final = 3  # states of the model, of a draft model, of speculation


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `tokens` tokens, with positions from `first` to `last`, in `bytes` bytes."""

    tokens: int
    first: int
    last: int
    bytes: int


def begins(reader: Reader, at: int) -> bool:
    """Whether what is left of the file from `at` on can be the beginning of a block."""
    head = reader.peek(at, len(MAGIC))
    return head != b"" and MAGIC.startswith(head)


def read_checkpoints(reader: Reader, at: int, into: list[Checkpoint]) -> int:
    """The block from `at` on, noted in `into`; where it ends. Raises ShortError and OddError."""
    _, version, count = reader.unpack("III", at, "the header of the checkpoints")
    if version != _VERSION or count > _MOST:
        raise OddError(f"{count} checkpoints of version {version}")
    at += _HEAD
    for number in range(count):
        what = f"checkpoint {number}"
        tokens, first, last = reader.unpack("qii", at, what)
        if not 0 <= tokens < 1 << 31:
            raise OddError(f"{what} after {tokens} tokens")
        at, begun = at + 16, at
        for _ in range(_PARTS):
            (size,) = reader.unpack("Q", at, what)
            reader.need(at + 8, size, what)
            at += 8 + size
        into.append(Checkpoint(tokens, first, last, at - begun))
    return at
