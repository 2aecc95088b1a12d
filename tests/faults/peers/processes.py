"""Faults of the process: it dies, hangs, closes its socket, becomes another user."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys

from base import FOREVER_S, Misbehaving, hang, sound

NOBODY = 65534


class DiesAtOnce(Misbehaving):
    def serve(self) -> None:
        sys.exit(3)


class DiesAfterHello(Misbehaving):
    tampers = sound.HELLO

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body)
        sys.exit(4)


class DiesOnRegion(Misbehaving):
    def region(self, request: int, body: bytes, fd: int = -1) -> None:
        sys.exit(5)


class DiesAfterRegion(DiesAfterHello):
    tampers = sound.MAPPED


class DiesInRequest(Misbehaving):
    """Killed when half of the rows are written."""

    def begin(self, request: int, body: bytes) -> None:
        slot = self.slots[struct.unpack_from("<II", body)[1]]
        slot["tensors"] = slot["tensors"][: len(slot["tensors"]) // 2]
        super().begin(request, body)

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class SaysNothing(Misbehaving):
    def serve(self) -> None:
        hang()


class HangsInRequest(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        hang()


class HangsWithChild(Misbehaving):
    """And the child that it started must not outlive it."""

    def serve(self) -> None:
        subprocess.Popen(["sleep", str(FOREVER_S)], pass_fds=[self.socket.fileno()])
        hang()


class ClosesItsSocket(Misbehaving):
    def tamper(self, kind: int, request: int, body: bytes) -> None:
        self.socket.close()
        hang()


class AnotherUser(Misbehaving):
    def hello(self, request: int, body: bytes) -> None:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        super().hello(request, body)


class AnotherUserLater(Misbehaving):
    """Greets as us and turns into somebody else for its work."""

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        os.setuid(NOBODY)
        super().tamper(kind, request, body)


class Deaf(Misbehaving):
    """Greets and never reads again."""

    tampers = sound.HELLO

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().tamper(kind, request, body)
        hang()
