"""One side of the handoff's socket: whole messages with at most one descriptor, deadlines, and whose they are."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final

from zcopy.errors import MeasurementError
from zcopy.native import wire
from zcopy.native._zc import ffi, lib
from zcopy.native.calls import NativeError

_ROLE_DECODER: Final = 1

# What each failure of the socket means to the reader of an error message.
_FAULTS: Final = {
    errno.ETIMEDOUT: "did not answer in time",
    errno.EPIPE: "is gone",
    errno.EMFILE: "sent a descriptor that was dropped on the way (MSG_CTRUNC)",
    errno.EMSGSIZE: "sent a message longer than the protocol allows",
    errno.EPROTO: "sent more than one descriptor",
    errno.EBADMSG: "sent a message that is not the expected one",
}


class PeerError(MeasurementError):
    """The other side is gone, hangs, refuses or does not speak the protocol. `code` is the errno."""

    def __init__(self, who: str, code: int, text: str, hint: str = "") -> None:
        super().__init__(f"{who} {text}", hint)
        self.code = code


class Channel:
    """Owns a connected SEQPACKET socket (`fd`) towards a peer that is called `who` in errors.

    `ticks` is a monotonic clock in ns; every wait ends `deadline_ns` after it began.
    """

    def __init__(self, fd: int, who: str, deadline_ns: int, ticks: Callable[[], int]) -> None:
        self.fd = fd
        self.who = who
        self.deadline_ns = deadline_ns
        self._ticks = ticks
        self._requests = 0
        self._buffer = ffi.new("char[]", wire.MOST)
        self._received = ffi.new("zc_received *")

    def send(self, kind: wire.Type, body: bytes = b"", fd: int = -1) -> int:
        """Sends a message and returns its request number. Raises PeerError."""
        self._requests += 1
        data = wire.message(kind, self._requests, body)
        if (status := lib.zc_send(self.fd, data, len(data), fd)) < 0:
            raise self.fault(-status)
        return self._requests

    def answer(self, request: int, kind: wire.Type, size: int) -> bytes:
        """The body (`size` bytes) of the peer's answer to `request`. Raises PeerError."""
        whole = wire.HEAD.size + size
        self.wait(
            lambda ms: lib.zc_answer(self.fd, request, kind, whole, ms, self._buffer, self._received),
            lambda: self._refusal(),
        )
        self._close_stray()
        self.check_sender()
        return bytes(ffi.buffer(self._buffer, whole)[wire.HEAD.size :])

    def wait(self, call: Callable[[int], int], refusal: Callable[[], str]) -> None:
        """Runs a waiting native call until its result is 0, going on after signals, within the deadline.

        `call` gets the milliseconds that are left; `refusal` gives the peer's sentence after EREMOTEIO.
        """
        end = self._ticks() + self.deadline_ns
        while True:
            left = max(0, (end - self._ticks()) // 1_000_000)
            status = call(left)
            if status == 0:
                return
            if status == -errno.EREMOTEIO:
                raise PeerError(self.who, errno.EREMOTEIO, f"refused: {refusal()}")
            if status != -errno.EINTR:
                raise self.fault(-status)

    def check_sender(self) -> None:
        """The kernel's word on who sent the last message: another user than ours is refused."""
        sender = self._received
        if sender.has_sender and sender.sender_uid != os.geteuid():
            uids = f"uid {sender.sender_uid}, we as {os.geteuid()}"
            raise PeerError(self.who, errno.EACCES, f"runs as another user ({uids})")

    def fault(self, code: int) -> PeerError:
        """The PeerError for an errno of the socket."""
        known = _FAULTS.get(code)
        return PeerError(
            self.who, code, known or f"cannot be spoken to: {NativeError(code, os.strerror(code)).strerror}"
        )

    def hello(self) -> wire.Hello:
        """Greets and returns the peer's greeting. Raises PeerError."""
        body = wire.HELLO.pack(_ROLE_DECODER, os.getpid(), 0, 0, b"zcopy")
        return wire.Hello.parse(
            self.answer(self.send(wire.Type.HELLO, body), wire.Type.HELLO, wire.HELLO.size)
        )

    def close(self) -> None:
        """Closes the socket. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _refusal(self) -> str:
        raw = bytes(ffi.buffer(self._buffer, wire.HEAD.size + wire.REFUSE.size)[wire.HEAD.size :])
        return refusal_text(wire.REFUSE.unpack(raw)[2])

    def _close_stray(self) -> None:
        if self._received.fd >= 0:
            os.close(self._received.fd)
            self._received.fd = -1


def refusal_text(raw: bytes) -> str:
    """The peer's sentence, printable and on one line."""
    text = raw.split(b"\0")[0].decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in text)
