"""Messages of the handoff protocol, version 1, as bytes (native/wire.h and docs/protocol.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from zcopy.native._zc import lib

MAGIC: Final = int(lib.ZC_WIRE_MAGIC)
VERSION: Final = int(lib.ZC_WIRE_VERSION)
MOST: Final = int(lib.ZC_WIRE_MOST)  # bytes of a message
RUNS_MOST: Final = int(lib.ZC_WIRE_RUNS)  # runs in one RUNS message
HEAD: Final = struct.Struct("<IHHII")


class Type(IntEnum):
    HELLO = 1
    TENSORS = 2
    REGION = 3
    MAPPED = 4
    RUNS = 5
    BEGIN = 6
    DONE = 7
    DROP = 8
    DROPPED = 9
    PIPE = 10
    REFUSE = 11
    BYE = 12


class Slot(IntEnum):
    REGION = 0  # the decoder's KV cache
    SOURCE = 1  # a packed source: token i is cell i


class Op(IntEnum):
    WRITE = 1
    SAVE = 2
    STREAM = 3
    LOAD = 4
    PLACE = 5


class Inject(IntEnum):
    NONE = 0
    SWAP_KV = 1
    STRIDE = 2
    RUN_LONG = 3
    SHORT = 4
    EARLY_DONE = 5
    NO_WRITE = 6


class BeginFlag(IntFlag):
    PREREAD = 1
    FRESH_FILE = 2


PLAIN: Final = BeginFlag(0)


class RegionFlag(IntFlag):
    SEALED = 1
    SYNC = 2


HELLO: Final = struct.Struct("<IIII32s")
TENSORS: Final = struct.Struct("<IIIIIIQ")
REGION: Final = struct.Struct("<IIiIQQ")
MAPPED: Final = struct.Struct("<IIQQQQ")
RUNS: Final = struct.Struct("<IIII")
BEGIN: Final = struct.Struct("<IIIIQiIIIII")
SLOT: Final = struct.Struct("<II")
REFUSE: Final = struct.Struct("<iI240s")


def message(kind: Type, request: int, body: bytes = b"") -> bytes:
    """A whole message: head and body."""
    return HEAD.pack(MAGIC, VERSION, kind, HEAD.size + len(body), request) + body


@dataclass(frozen=True, slots=True)
class Hello:
    role: int
    pid: int
    asan: bool
    name: str

    @staticmethod
    def parse(body: bytes) -> Hello:
        role, pid, flags, _, name = HELLO.unpack(body)
        return Hello(role, pid, bool(flags & 1), name.split(b"\0")[0].decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Mapped:
    """The provider's answer to REGION; CLOCK_MONOTONIC of the receipt, the time mapping took, what it mapped."""

    slot: int
    received_ns: int
    map_ns: int
    dev: int
    ino: int

    @staticmethod
    def parse(body: bytes) -> Mapped:
        slot, _, received_ns, map_ns, dev, ino = MAPPED.unpack(body)
        return Mapped(slot, received_ns, map_ns, dev, ino)
