"""A simulated server: it answers each request with what a test has scripted, down to the bytes and their pace."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from zcopy.engines.llama.http import Client

SECOND = 10**9
Script = Callable[[socket.socket], None]


class Scripted:
    """Listens on loopback; the n-th connection's request is read and then handed to the n-th script."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._door = socket.create_server((host, 0), family=family)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._door.getsockname()[1]}"
        self.asked: list[bytes] = []
        self._thread: threading.Thread | None = None

    def play(self, *scripts: Script) -> Scripted:
        self._thread = threading.Thread(target=self._serve, args=(scripts,), daemon=True)
        self._thread.start()
        return self

    def _serve(self, scripts: Sequence[Script]) -> None:
        for script in scripts:
            try:
                peer, _ = self._door.accept()
            except OSError:
                return
            with peer:
                self.asked.append(self._request(peer))
                with contextlib.suppress(OSError):  # the client may have had enough
                    script(peer)

    def _request(self, peer: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += peer.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            while name.lower() == b"content-length" and len(body) < int(value):
                body += peer.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._door.close()
        if self._thread is not None:
            self._thread.join(20)


def says(document: Any, status: int = 200) -> Script:
    """A whole answer; bytes are sent as they are, all else as JSON."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return raw(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


def raw(data: bytes, pace: float = 0, hold: float = 0) -> Script:
    """These bytes, `pace` seconds apart, and then the connection stays open for `hold` seconds or until it is left."""

    def script(peer: socket.socket) -> None:
        if not pace:
            peer.sendall(data)
        else:
            for at in range(len(data)):
                peer.sendall(data[at : at + 1])
                time.sleep(pace)
        if hold:
            peer.settimeout(hold)
            peer.recv(1)

    return script


class Tools:
    says = staticmethod(says)
    raw = staticmethod(raw)


@pytest.fixture
def no_socket_left(held: Callable[[], Any]) -> Iterator[None]:
    """Fails a test that leaves a descriptor open. (A thread's first malloc leaves an arena: not a mapping of ours.)"""
    before = held().fds
    yield
    assert held().fds == before


@pytest.fixture
def tools() -> type[Tools]:
    return Tools


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def new(*scripts: Script, host: str = "127.0.0.1") -> Scripted:
        made.append(Scripted(host).play(*scripts))
        return made[-1]

    yield new
    for one in made:
        one.close()


@pytest.fixture
def client() -> Callable[..., Client]:
    def new(url: str, deadline_s: float = 20) -> Client:
        return Client(
            "the server", url, int(deadline_s * SECOND), time.monotonic_ns, lambda: " (killed by SIGKILL)"
        )

    return new
