"""One side of the handoff's socket: whole messages with at most one descriptor, deadlines, and whose they are."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable
from typing import Any, Final

from zcopy.errors import MeasurementError
from zcopy.native import wire
from zcopy.native._zc import ffi, lib

_ROLE_DECODER: Final = 1
_ROLE_PROVIDER: Final = 2
_MOST_MS: Final = (1 << 31) - 1  # what poll(2) takes

# What each failure of the socket means to the reader of an error message.
_FAULTS: Final = {
    errno.ETIMEDOUT: "did not answer in time",
    errno.EPIPE: "is gone",
    errno.EMFILE: "sent a descriptor that was dropped on the way (MSG_CTRUNC)",
    errno.EMSGSIZE: "sent a message longer than the protocol allows",
    errno.EPROTO: "sent a descriptor that nobody asked for",
    errno.EPROTONOSUPPORT: f"speaks another version of the protocol than {wire.VERSION}",
    errno.EBADMSG: "sent a message that is not the expected one",
}


class PeerError(MeasurementError):
    """The other side is gone, hangs, refuses or does not speak the protocol. `code` is the errno."""

    def __init__(self, who: str, code: int, text: str, hint: str = "") -> None:
        super().__init__(f"{who} {text}", hint)
        self.code = code


class Channel:
    """Owns a connected SEQPACKET socket (`fd`) towards a peer that is called `who` in errors.

    `ticks` is a monotonic clock in ns; every wait ends `deadline_ns` after it began, also the wait for room to send.
    `epitaph` says what became of a peer that is gone. After a PeerError (`broken`) question and answer are no longer
    in step: nothing more can be asked.
    """

    def __init__(
        self,
        fd: int,
        who: str,
        deadline_ns: int,
        ticks: Callable[[], int],
        epitaph: Callable[[], str] = lambda: "",
    ) -> None:
        self.fd = fd
        self.who = who
        self.deadline_ns = deadline_ns
        self.broken: PeerError | None = None
        self.peer_pid = 0  # who has greeted, as the kernel vouches
        self._ticks = ticks
        self._epitaph = epitaph
        self._requests = 0
        os.set_blocking(fd, False)
        self._buffer = ffi.new("char[]", wire.MOST)
        self._received = ffi.new("zc_received *")

    def send(self, kind: wire.Type, body: bytes = b"", fd: int = -1) -> int:
        """Sends a message and returns its request number. Raises PeerError."""
        self._requests += 1
        data = wire.message(kind, self._requests, body)
        end = self._ticks() + self.deadline_ns
        while (status := lib.zc_send(self.fd, data, len(data), fd)) == -errno.EAGAIN:
            room = select.poll()
            room.register(self.fd, select.POLLOUT)
            if not room.poll(self._left_ms(end)):
                raise self.fail(errno.ETIMEDOUT, "does not read what it is sent")
        if status < 0:
            raise self.last_words() or self.fault(-status)
        return self._requests

    def answer(self, request: int, kind: wire.Type, size: int) -> bytes:
        """The body (`size` bytes) of the peer's answer to `request`. Raises PeerError."""
        whole = wire.HEAD.size + size
        self.wait(
            lambda ms: lib.zc_answer(self.fd, request, kind, whole, ms, self._buffer, self._received),
            self._refusal,
        )
        self.check_sender(self._received)
        return bytes(ffi.buffer(self._buffer, whole)[wire.HEAD.size :])

    def wait(self, call: Callable[[int], int], refusal: Callable[[], str]) -> None:
        """Runs a waiting native call until its result is 0, going on after signals, within the deadline.

        `call` gets the milliseconds that are left; `refusal` gives the peer's sentence after EREMOTEIO.
        """
        end = self._ticks() + self.deadline_ns
        while True:
            status = call(self._left_ms(end))
            if status == 0:
                return
            if status == -errno.EREMOTEIO:
                raise self.fail(errno.EREMOTEIO, f"refused: {refusal()}")
            if status != -errno.EINTR:
                raise self.fault(-status)

    def check_sender(self, sender: Any) -> None:
        """The kernel's word on who sent a message (its real uid): another user than ours is refused."""
        if sender.has_sender and sender.sender_uid != os.getuid():
            uids = f"uid {sender.sender_uid}, we as {os.getuid()}"
            raise self.fail(errno.EACCES, f"runs as another user ({uids})")

    def fail(self, code: int, text: str) -> PeerError:
        """A PeerError that says `text` of the peer; from now on the channel is broken."""
        self.broken = PeerError(self.who, code, text)
        return self.broken

    def fault(self, code: int) -> PeerError:
        """The PeerError for an errno of the socket."""
        text = _FAULTS.get(code) or f"cannot be spoken to: {os.strerror(code)}"
        return self.fail(code, text + (self._epitaph() if code == errno.EPIPE else ""))

    def hello(self) -> wire.Hello:
        """Greets and returns the peer's greeting. Raises PeerError."""
        body = wire.HELLO.pack(_ROLE_DECODER, os.getpid(), 0, 0, b"zcopy")
        answer = self.answer(self.send(wire.Type.HELLO, body), wire.Type.HELLO, wire.HELLO.size)
        hello = wire.Hello.parse(answer)
        if hello.role != _ROLE_PROVIDER:
            raise self.fail(errno.EBADMSG, f"says that its role is {hello.role}, not a provider's")
        self.peer_pid = int(self._received.sender_pid)
        return hello

    def close(self) -> None:
        """Closes the socket. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _refusal(self) -> str:
        raw = bytes(ffi.buffer(self._buffer, wire.HEAD.size + wire.REFUSE.size)[wire.HEAD.size :])
        return refusal_text(wire.REFUSE.unpack(raw)[2])

    def last_words(self) -> PeerError | None:
        """What a peer that reads no more has sent before: a refusal, or None."""
        kind, size = wire.Type.REFUSE, wire.HEAD.size + wire.REFUSE.size
        status = lib.zc_answer(self.fd, self._requests, kind, size, 0, self._buffer, self._received)
        if status != -errno.EREMOTEIO:
            return None
        return self.fail(errno.EREMOTEIO, f"refused: {self._refusal()}")

    def _left_ms(self, end: int) -> int:
        return min(max(0, (end - self._ticks()) // 1_000_000), _MOST_MS)


def refusal_text(raw: bytes) -> str:
    """The peer's sentence, printable and on one line."""
    text = raw.split(b"\0")[0].decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in text) or "it gives no reason"
