"""Whatever a server does, a request ends within its deadline, in an answer or in one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from zcopy.errors import MeasurementError, UsageError

pytestmark = pytest.mark.usefixtures("no_socket_left")

New = Callable[..., Any]


def test_an_answer_has_its_status_document_and_span(scripted: New, client: New, tools: Any) -> None:
    server = scripted(tools.says({"a": [1]}), tools.says({"error": {"message": "no"}}, 400))
    one = client(server.url)
    answer = one.post("/x", {"key": "ä"})
    assert (answer.status, answer.document) == (200, {"a": [1]})
    assert 0 < answer.ns < 20 * 10**9
    assert one.get("/y").fault == "HTTP 400: no"
    assert server.asked[0].startswith(b"POST /x HTTP/1.1\r\n")
    assert server.asked[0].endswith(b'{"key": "\\u00e4"}')
    assert server.asked[1].startswith(b"GET /y HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("data", "document"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n", [1, 2]),
        (b"HTTP/1.0 200 OK\r\n\r\n[3]", [3]),
        (b"HTTP/1.1 204 Nothing\r\nContent-Length: 0\r\n\r\n", None),
    ],
)
def test_every_way_of_framing_is_read(
    data: bytes, document: Any, scripted: New, client: New, tools: Any
) -> None:
    assert client(scripted(tools.raw(data)).url).get("/").document == document


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ((b"",), r"went away \(killed by SIGKILL\) \(/x\)"),
        ((b"HTTP/1.",), "went away"),
        ((b"SSH-2.0-OpenSSH\r\n",), "went away"),
        ((HEAD + b"[1",), "went away"),
        ((HEAD + b"not json!!",), "answered with something that is not JSON"),
        (
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",),
            "answered with something that is not JSON",
        ),
        ((HEAD.replace(b"10", b"99999999999") + bytes(65 << 20),), "sent more than 64 MiB"),
    ],
)
def test_what_is_no_answer_is_one_sentence(
    script: tuple[bytes], told: str, scripted: New, client: New, tools: Any
) -> None:
    with pytest.raises(MeasurementError, match=f"^the server {told}") as caught:
        client(scripted(tools.raw(*script)).url).get("/x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "pace"),
    [(b"", 0), (HEAD, 0), (HEAD + b"[1", 0), (HEAD, 0.05), (HEAD + b"[1,2,3,4,5]", 0.03)],
    ids=["silent", "no body", "half a body", "a slow head", "slow throughout"],
)
def test_one_deadline_holds_for_all_of_a_request(
    data: bytes, pace: float, scripted: New, client: New, tools: Any
) -> None:
    server = scripted(tools.raw(data, pace, hold=0.8))
    began = time.monotonic()
    with pytest.raises(MeasurementError, match=r"the server did not answer within 300 ms \(/x\)"):
        client(server.url, 0.3).get("/x")
    assert time.monotonic() - began < 2


def test_nobody_there_is_told(client: New) -> None:
    with pytest.raises(MeasurementError, match=r"the server is not there \(killed by SIGKILL\) \(/x\)"):
        client("http://127.0.0.1:9").get("/x")


@pytest.mark.parametrize(
    "url",
    ["", "http://", "https://127.0.0.1:1", "http://127.0.0.1:1/path", "http://127.0.0.1:1?a=b", "http://h:port",
     "http://h:99999", "ftp://h:1", "http://me:secret@h:1", "http://h:1\r\nX: y", "http://[::1", "http://h:1#f"],
)  # fmt: skip
def test_what_is_no_servers_address_is_wrong_usage(url: str, client: New) -> None:
    with pytest.raises(UsageError, match="is no server's address") as caught:
        client(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}", "127.0.0.1:{}", "http://localhost:{}/"])
def test_addresses_are_taken_as_people_write_them(url: str, scripted: New, client: New, tools: Any) -> None:
    server = scripted(tools.says([7]))
    assert client(url.format(server.url.rpartition(":")[2])).get("/").document == [7]


def test_a_proxy_of_the_environment_is_none_of_ours(
    scripted: New, client: New, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert client(scripted(tools.says([8])).url).get("/").document == [8]
