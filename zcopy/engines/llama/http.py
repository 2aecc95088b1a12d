"""Requests to a server on its HTTP port: one deadline for the whole of each, one line for whatever goes wrong."""

from __future__ import annotations

import json
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
        return f"HTTP {self.status}: {text or 'no reason given'}"


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
        """Raises UsageError for what is not an http URL of a host and a port."""
        self.who, self.url = who, url
        self._deadline_ns, self._ticks, self._epitaph = deadline_ns, ticks, epitaph
        self._host, self._port = _address(url)

    def get(self, path: str) -> Answer:
        """Raises MeasurementError where no whole answer came in time."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Json]) -> Answer:
        """Raises MeasurementError where no whole answer came in time."""
        return self._ask("POST", path, json.dumps(body).encode())

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        end = self._ticks() + self._deadline_ns
        connection = HTTPConnection(self._host, self._port, timeout=self._left(end))
        try:
            connection.connect()
            started = self._ticks()
            connection.request(
                method, path, body, {"Content-Type": "application/json", "Connection": "close"}
            )
            response = connection.getresponse()
            data = self._read(connection, response, end)
            return Answer(response.status, _document(data), self._ticks() - started)
        except TimeoutError:
            raise self._fault(path, f"did not answer within {duration_text(self._deadline_ns)}") from None
        except ConnectionRefusedError:
            raise self._fault(path, f"is not there{self._epitaph()}") from None
        except (OSError, HTTPException):
            raise self._fault(path, f"went away{self._epitaph()}") from None
        except ValueError as error:
            raise self._fault(path, str(error)) from None
        finally:
            connection.close()

    def _read(self, connection: HTTPConnection, response: HTTPResponse, end: int) -> bytes:
        """The body. A server that sends a byte now and then does not stretch the deadline."""
        data = bytearray()
        while True:
            if connection.sock is not None:
                connection.sock.settimeout(self._left(end))
            chunk = response.read1(_CHUNK)
            if not chunk:
                if response.length:  # it announced more than it sent
                    raise IncompleteRead(bytes(data), response.length)
                return bytes(data)
            data += chunk
            self._left(end)
            if len(data) > _MOST_BYTES:
                raise ValueError(f"sent more than {size_text(_MOST_BYTES)}")

    def _left(self, end: int) -> float:
        """Seconds until `end`. Raises TimeoutError where there are none."""
        left = end - self._ticks()
        if left <= 0:
            raise TimeoutError
        return left / 1e9

    def _fault(self, path: str, what: str) -> MeasurementError:
        return MeasurementError(f"{self.who} {what} ({path})")


def _document(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        raise ValueError("answered with something that is not JSON") from None


def _address(url: str) -> tuple[str, int]:
    wrong = UsageError(f"{url!r} is no server's address", "give it as http://HOST:PORT")
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        raise wrong from None
    beside = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if not host or parts.scheme != "http" or beside:
        raise wrong
    return host, port
