"""Faults of what it says, and of what it writes."""

from __future__ import annotations

import array
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import ClassVar

from base import Misbehaving, hang, sound

HOSTILE = "\x1b[31mred\x1b[0m\nzcopy: ok\r\t\x07[bold]markup[/bold] \u202e\ud800".encode(
    "utf-8", "surrogatepass"
)


class Floods(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        while True:
            super().tamper(kind, request + 1, body)


class AnswersTwice(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body)
        super().tamper(kind, request, body)


class SendsNoBytes(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        self.socket.send(b"")
        hang()


class Short(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body[:-1])


class HeadOnly(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        self.socket.send(sound.HEAD.pack(sound.MAGIC, sound.VERSION, kind, 16 + len(body), request)[:7])


class Long(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body + bytes(8))


class Huge(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body + bytes(100_000))


class LiesAboutLength(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        self.raw(sound.MAGIC, sound.VERSION, kind, 16, request, body)


class WrongRequest(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request + 1, body)


class WrongKind(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(sound.MAPPED, request, body)


class WrongVersion(Misbehaving):
    tampers = sound.HELLO

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        self.raw(sound.MAGIC, 2, kind, 16 + len(body), request, body)


class WrongMagic(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        self.raw(sound.MAGIC + 1, sound.VERSION, kind, 16 + len(body), request, body)


class WrongRole(Misbehaving):
    def hello(self, request: int, body: bytes) -> None:
        self.send(sound.HELLO, request, struct.pack("<IIII32s", 1, os.getpid(), 0, 0, b"a decoder"))


class Refuses(Misbehaving):
    sentence: ClassVar[bytes] = b"out of tokens"

    def begin(self, request: int, body: bytes) -> None:
        self.send(sound.REFUSE, request, struct.pack("<iI240s", -12, 0, self.sentence))


class RefusesHostile(Refuses):
    sentence = HOSTILE


class RefusesWithoutEnd(Refuses):
    sentence = b"x" * 240  # fills the field: no NUL


class RefusesWithoutReason(Refuses):
    sentence = b""


class RefusesAndLeaves(Misbehaving):
    """At the first message that has no answer, with others still unread behind it."""

    def tensors(self, request: int, body: bytes) -> None:
        time.sleep(0.05)
        self.send(sound.REFUSE, request, struct.pack("<iI240s", -22, 0, b"no such model here"))
        sys.exit(1)


class SendsDescriptors(Misbehaving):
    count: ClassVar[int] = 1

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(self.count)]
        head = sound.HEAD.pack(sound.MAGIC, sound.VERSION, kind, 16 + len(body), request)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        self.socket.sendmsg([head + body], [rights])


class SendsTwoDescriptors(SendsDescriptors):
    count = 2


class SendsManyDescriptors(SendsDescriptors):
    count = 100


class LiesAboutBytes(Misbehaving):
    def done(self, request: int, op: int, began: int, ended: int, written: int) -> None:
        super().done(request, op, began, ended, written - 1)


class LiesAboutTimes(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body[:8] + struct.pack("<QQ", 1, (1 << 64) - 1) + body[24:])


class SentInTheFuture(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body[:-8] + struct.pack("<Q", time.monotonic_ns() + 10**12))


class LiesAboutFaults(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body[:40] + struct.pack("<Q", (1 << 64) - 1) + body[48:])


class MapsYesterday(Misbehaving):
    tampers = sound.MAPPED

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body[:8] + struct.pack("<QQ", 1, (1 << 64) - 1) + body[24:])


class WritesNothing(Misbehaving):
    def begin(self, request: int, body: bytes) -> None:
        slot = self.slots[struct.unpack_from("<II", body)[1]]
        now, rows = time.monotonic_ns(), sum(count for _, count in slot["runs"])
        self.done(request, 1, now, now, rows * sum(tensor[3] for tensor in slot["tensors"]))


class OneRowTooMany(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        for slot in self.slots.values():
            offset, stride, _, size, *_ = slot["tensors"][0]
            first, count = slot["runs"][-1]
            at = offset + (first + count) * stride
            slot["map"][at : at + size] = b"\xee" * size
        super().tamper(kind, request, body)


class Streams(Misbehaving):
    """Does what a stream asks for, and then its "done" is another request's."""

    def serve(self) -> None:
        self.pipe_end = -1
        super().serve()

    def pipe(self, request: int, body: bytes, fd: int = -1) -> None:
        self.pipe_end = fd

    def begin(self, request: int, body: bytes) -> None:
        op, number = struct.unpack_from("<II", body)
        if op == 1:
            super().begin(request, body)
            return
        began, rows = time.monotonic_ns(), self.slots[number]["map"]
        written = 0
        while written < len(rows):
            written += os.write(self.pipe_end, rows[written:])
        self.done(request + 1, op, began, time.monotonic_ns(), written)

    @property
    def handlers(self) -> dict[int, Callable[..., None]]:
        return {**super().handlers, sound.PIPE: self.pipe}
