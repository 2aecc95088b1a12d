"""Requests to a server on its HTTP port: one deadline for the whole of each, one line for whatever goes wrong."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from typing import Any, Final
from urllib.parse import urlsplit

from zcopy.errors import MeasurementError, UsageError
from zcopy.model import Json
from zcopy.units import duration_text, size_text

_MOST_BYTES: Final = 64 << 20  # of an answer: a completion of a few tokens takes some KiB
_CHUNK: Final = 1 << 16
_MOST_WORDS: Final = 200  # characters of a server's own words
_HOST: Final = re.compile(r"[^\x00-\x20\x7f/\\]+")
_GIVE: Final = "give it as http://HOST:PORT"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, the JSON document, and the ns from the request's first byte to its last."""

    status: int
    document: Any
    ns: int

    @property
    def fault(self) -> str:
        """The server's own words where the status is not 200."""
        error = self.document.get("error") if isinstance(self.document, Mapping) else None
        text = error.get("message") if isinstance(error, Mapping) else error
        return f"HTTP {self.status}: {_words(text) or 'no reason given'}"


class Client:
    """Speaks to one server, called `who` in errors.

    `epitaph` says what became of a server that no longer answers ("" where that cannot be known). A connection is
    made for each request, before its clock starts.
    """

    def __init__(
        self,
        who: str,
        url: str,
        deadline_ns: int,
        ticks: Callable[[], int],
        epitaph: Callable[[], str] = lambda: "",
    ) -> None:
        """Raises UsageError where `url` is no `address`."""
        self.who, self.url = who, url
        self._deadline_ns, self._ticks, self._epitaph = deadline_ns, ticks, epitaph
        self._host, self._port = address(url)

    def get(self, path: str) -> Answer:
        """Raises MeasurementError where no whole answer came in time."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Json]) -> Answer:
        """Raises MeasurementError where no whole answer came in time."""
        return self._ask("POST", path, json.dumps(body).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        left = self._countdown()
        connection = HTTPConnection(self._host, self._port)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        try:
            connection.sock = self._reach(path, left)
            started = self._ticks()
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:
                data = _read(response)
            return Answer(response.status, _document(response.status, data), self._ticks() - started)
        except TimeoutError:
            raise self._fault(path, f"did not answer within {duration_text(self._deadline_ns)}") from None
        except (OSError, IncompleteRead):
            raise self._fault(path, f"went away{self._epitaph()}") from None
        except HTTPException:
            raise self._fault(path, "answered with something that is not HTTP") from None
        except ValueError as error:
            raise self._fault(path, str(error)) from None
        finally:
            connection.close()

    def _reach(self, path: str, left: Callable[[], float]) -> _Timely:
        try:
            return _connected(self._host, self._port, left)
        except ConnectionRefusedError:
            raise self._fault(path, f"is not there{self._epitaph()}") from None
        except OSError as error:
            if error.errno is None:  # our deadline, not one of the system's
                raise
            raise self._fault(path, f"cannot be reached: {error.strerror}") from None

    def _countdown(self) -> Callable[[], float]:
        """Seconds until the deadline of a request that begins now; raises TimeoutError where there are none."""
        end = self._ticks() + self._deadline_ns

        def left() -> float:
            ns = end - self._ticks()
            if ns <= 0:
                raise TimeoutError
            return ns / 1e9

        return left

    def _fault(self, path: str, what: str) -> MeasurementError:
        return MeasurementError(f"{self.who} {what} ({path})")


class _Timely(socket.socket):
    """A TCP socket none of whose waits outlasts what is `left`: a peer that trickles bytes gains nothing by it."""

    def __init__(self, family: int, left: Callable[[], float]) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._left = left

    def connect(self, address: Any) -> None:
        self.settimeout(self._left())
        super().connect(address)

    def sendall(self, data: Any, flags: int = 0) -> None:
        self.settimeout(self._left())
        super().sendall(data, flags)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        self.settimeout(self._left())
        return super().recv_into(buffer, nbytes, flags)


def _connected(host: str, port: int, left: Callable[[], float]) -> _Timely:
    """To the first of the host's addresses that takes a connection."""
    fault: OSError | None = None
    for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = _Timely(family, left)
        try:
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError):
                raise
            fault = fault or error
    assert fault is not None  # a name without addresses raises
    raise fault


def _read(response: HTTPResponse) -> bytes:
    data = bytearray()
    while chunk := response.read1(_CHUNK):
        data += chunk
        if len(data) > _MOST_BYTES:
            raise ValueError(f"sent more than {size_text(_MOST_BYTES)}")
    if response.length:  # it announced more than it sent
        raise IncompleteRead(bytes(data), response.length)
    return bytes(data)


def _document(status: int, data: bytes) -> Any:
    """None for nothing, and for a fault that is told in HTML or the like: its status says enough."""
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError):
        if status != 200:
            return None
        raise ValueError("answered with something that is not JSON") from None


def _words(text: Any) -> str:
    """What a server says, fit for one line."""
    line = " ".join(str(text or "").split())[:_MOST_WORDS]
    return "".join(char if char.isprintable() else "?" for char in line)


def address(url: str) -> tuple[str, int]:
    """The host and the port of http://HOST:PORT. Raises UsageError for everything else."""
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
        host.encode("idna")
    except ValueError:
        raise _wrong(url) from None
    if parts.username is not None:  # not repeated: what is wrong about it is that it is written down
        raise UsageError("a server's address holds no user name and no password", _GIVE)
    beside = parts.path.strip("/") or parts.query or parts.fragment
    if not _HOST.fullmatch(host) or not port or parts.scheme != "http" or beside:
        raise _wrong(url)
    return host, port


def _wrong(url: str) -> UsageError:
    return UsageError(f"{url!r} is no server's address", _GIVE)
