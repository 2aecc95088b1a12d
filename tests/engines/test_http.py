"""Whatever a server does, a request ends within its deadline, in an answer or in one sentence."""

from __future__ import annotations

import socket
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


@pytest.mark.parametrize(
    ("status", "document", "told"),
    [
        (400, {"error": {"code": 400, "message": "Unable to restore slot", "type": "x"}}, "Unable to restore slot"),
        (401, {"error": {"message": "Invalid API Key"}}, "Invalid API Key"),
        (404, b"<html>nginx</html>", "no reason given"),
        (500, b"<html>\xff</html>", "no reason given"),
        (501, {"error": "not here"}, "not here"),
        (503, {"error": {"message": "Loading model"}}, "Loading model"),
        (500, {"error": {"message": ["a\nb"]}}, r"['a\nb']"),
        (500, {"error": {"message": "two\r\nlines \x1b[31m"}}, "two lines ?[31m"),
        (500, {"error": {"message": "x" * 5000}}, "x" * 200),
        (500, [1], "no reason given"),
        (502, b"", "no reason given"),
    ],
)  # fmt: skip
def test_a_fault_is_the_servers_own_words_in_one_line(
    status: int, document: Any, told: str, scripted: New, client: New, tools: Any
) -> None:
    answer = client(scripted(tools.says(document, status)).url).get("/")
    assert answer.fault == f"HTTP {status}: {told}"


def test_a_connection_that_is_kept_open_is_not_waited_for(scripted: New, client: New, tools: Any) -> None:
    data = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n[4]"
    assert client(scripted(tools.raw(data, hold=60)).url, 5).get("/").document == [4]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", r"went away \(killed by SIGKILL\) \(/x\)"),
        (HEAD + b"[1", "went away"),
        (CHUNKED + b"9\r\n[1,", "went away"),
        (CHUNKED + b"many\r\n[1]\r\n0\r\n\r\n", "went away"),
        (b"HTTP/1.", "answered with something that is not HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "answered with something that is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200, "answered with something that is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + bytes(1 << 17), "answered with something that is not HTTP"),
        (HEAD + b"not json!!", "answered with something that is not JSON"),
        (HEAD.replace(b"10", b"2") + b"\xff\xfe", "answered with something that is not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000, "answered with something that is not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"9" * 5000, "answered with something that is not JSON"),
        (HEAD.replace(b"10", b"99999999999") + bytes(65 << 20), "sent more than 64 MiB"),
        (CHUNKED + b"5000000\r\n" + bytes(0x5000000), "sent more than 64 MiB"),
    ],
    ids=range(14),
)
def test_what_is_no_answer_is_one_sentence(
    data: bytes, told: str, scripted: New, client: New, tools: Any
) -> None:
    one = client(scripted(tools.raw(data)).url)
    with pytest.raises(MeasurementError, match=f"^the server {told}") as caught:
        one.get("/x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "pace"),
    [
        (b"", 0), (HEAD, 0), (HEAD + b"[1", 0), (CHUNKED + b"9\r\n[", 0),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 900, 0.02), (HEAD + b"[1,2,3,4,5]", 0.03),
        (CHUNKED + b"1\r\n[\r\n" * 300, 0.02), (b"HTTP/1.1 100 X\r\n\r\n" * 99, 0.01),
    ],
    ids=["silent", "no body", "half a body", "half a chunk", "a slow head", "slow", "slow chunks", "for ever soon"],
)  # fmt: skip
def test_one_deadline_holds_for_all_of_a_request(
    data: bytes, pace: float, scripted: New, client: New, tools: Any
) -> None:
    """The slow ones would take from 1 to 50 seconds, with never a long wait in between."""
    server = scripted(tools.raw(data, pace, hold=30))
    began = time.monotonic()
    with pytest.raises(MeasurementError, match=r"the server did not answer within 300 ms \(/x\)"):
        client(server.url, 0.3).get("/x")
    assert time.monotonic() - began < 5


def test_an_error_that_is_kept_keeps_no_socket(scripted: New, client: New, tools: Any, held: Any) -> None:
    before = held().fds
    server = scripted(tools.raw(HEAD.replace(b"Content", b"Connection: close\r\nContent") + b"[1", hold=2))
    with pytest.raises(MeasurementError) as kept:
        client(server.url, 0.2).get("/x")
    server.close()
    assert held().fds == before
    assert kept.value.__context__ is not None


def test_nobody_there_is_told(client: New) -> None:
    with pytest.raises(MeasurementError, match=r"the server is not there \(killed by SIGKILL\) \(/x\)"):
        client("http://127.0.0.1:9").get("/x")


@pytest.mark.parametrize(
    "url",
    ["", "http://", "https://127.0.0.1:1", "http://127.0.0.1:1/path", "http://127.0.0.1:1?a=b", "http://h:port",
     "http://h:99999", "http://h:0", "http://h:-1", "ftp://h:1", "http://h:1\r\nX: y", "http://[::1", "http://h:1#f",
     "http://a b:1", "http://a\x00b:1", "http://a\x1fb", "http://a..b", "http://" + "a" * 70, "h:1:2", "http://a\\b:1",
     "http:h:1", "//"],
)  # fmt: skip
def test_what_is_no_servers_address_is_wrong_usage(url: str, client: New) -> None:
    with pytest.raises(UsageError, match="is no server's address") as caught:
        client(url)
    assert "\n" not in str(caught.value)


def test_a_password_is_refused_and_not_repeated(client: New) -> None:
    with pytest.raises(UsageError, match="no user name and no password") as caught:
        client("http://me:secret@h:1")
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_an_address_without_a_way_to_it_is_told(client: New) -> None:
    with pytest.raises(MeasurementError, match=r"^the server cannot be reached: [^\n]+ \(/x\)$"):
        client("http://255.255.255.255:1").get("/x")


def test_an_address_of_ipv6(scripted: New, client: New, tools: Any) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this box has no IPv6")
    try:
        server = scripted(tools.says([9]), host="::1")
    except OSError as error:
        pytest.skip(f"no IPv6 on loopback: {error}")
    assert client(server.url).get("/").document == [9]
    assert f"\r\nHost: {server.url.removeprefix('http://')}\r\n".encode() in server.asked[0]


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
