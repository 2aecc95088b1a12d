"""Decoders that say what makes no sense to the real provider: it refuses with a sentence and stays usable."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import replace
from typing import Any

import pytest

from zcopy.native import fds, wire
from zcopy.native.rows import K, Tensor, V
from zcopy.native.wire import Type

SCM_CREDENTIALS = 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can speak for another user")
def test_another_user_is_refused(talk: Any) -> None:
    other = (socket.SOL_SOCKET, SCM_CREDENTIALS, struct.pack("iII", os.getpid(), 65534, 65534))
    talk.raw(wire.message(Type.HELLO, 9, wire.HELLO.pack(1, 0, 0, 0, b"")), extra=[other])
    assert talk.refusal(errno.EACCES, request=9).startswith(
        "the decoder runs as uid 65534, this provider as 0"
    )
    talk.usable()


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_another_version(version: int, talk: Any) -> None:
    for size in (16, 80):  # whatever else that version has changed
        talk.raw(wire.HEAD.pack(wire.MAGIC, version, Type.HELLO, size, 5) + bytes(4))
        sentence = talk.refusal(errno.EPROTONOSUPPORT, request=5)
        assert sentence.startswith(f"protocol version {version}, this provider speaks 1")
    talk.usable()


@pytest.mark.parametrize(
    "magic", [0, wire.MAGIC + 1, int.from_bytes(wire.MAGIC.to_bytes(4, "little"), "big")]
)
def test_another_protocol(magic: int, talk: Any) -> None:
    talk.raw(wire.HEAD.pack(magic, wire.VERSION, Type.HELLO, 16, 5))
    assert talk.refusal(errno.EBADMSG, request=5).startswith("a message of 16 bytes that is not ours")
    talk.usable()


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 11, 13, 65535])
def test_what_a_decoder_does_not_say(kind: int, talk: Any) -> None:
    talk.raw(wire.HEAD.pack(wire.MAGIC, wire.VERSION, kind, 16, 5))
    assert talk.refusal(errno.EBADMSG, request=5).startswith(f"message type {kind}")
    talk.usable()


def whole(talk: Any) -> dict[Type, bytes]:
    """A sound body of everything that a decoder says."""
    return {
        Type.HELLO: wire.HELLO.pack(1, 1, 0, 0, b"zcopy"),
        Type.TENSORS: talk.tensors_body(),
        Type.REGION: talk.region_body(),
        Type.RUNS: talk.runs_body([(0, 4), (8, 2)]),
        Type.BEGIN: talk.begin_body(),
        Type.DROP: wire.SLOT.pack(0, 0),
    }


def test_truncated_messages_of_every_length(talk: Any) -> None:
    """With a head that tells the length, with one that lies, and cut inside the head."""
    region = talk.ready()
    fd = fds.memfd("zcopy-test", 4096)
    for kind, body in whole(talk).items():
        passed = [fd] if kind is Type.REGION else []
        for size in range(len(body)):
            talk.send(kind, body[:size], passed)
            talk.refusal(errno.EBADMSG)
            talk.raw(wire.message(kind, 3, body)[: 16 + size], passed)
            talk.refusal(errno.EBADMSG, request=3)
        talk.send(kind, body + b"\1", passed)  # for BEGIN that is a path without its NUL
        talk.refusal(errno.EBADMSG)
    for size in range(1, 16):
        talk.raw(wire.message(Type.HELLO, 3)[:size])
        talk.refusal(errno.EBADMSG, request=0)
    os.close(fd)
    region.close()
    talk.usable()


def test_a_message_that_is_too_long(talk: Any) -> None:
    for size in (wire.MOST + 1, 150_000):
        talk.raw(wire.HEAD.pack(wire.MAGIC, wire.VERSION, Type.TENSORS, size, 5) + bytes(size - 16))
        talk.refusal(errno.EMSGSIZE, request=0)
    talk.usable()


def test_an_empty_message_ends_it(talk: Any) -> None:
    talk.raw(b"")
    assert talk.process.wait(20) == 0


ROW = Tensor(0, 64, 0, 64, 0, 0, K)
SCATTERED = Tensor(0, 2, 32, 128, 2, 0, V)
BIG = 1 << 63
TENSORS: dict[str, tuple[list[Tensor], dict[str, int], int]] = {
    "none": ([], {}, errno.EBADMSG),
    "fewer than announced": ([ROW], {"count": 2}, errno.EBADMSG),
    "more than announced": ([ROW, replace(ROW, offset=1024)], {"count": 1}, errno.EBADMSG),
    "far more announced": ([ROW], {"count": (1 << 32) - 1}, errno.EBADMSG),
    "no cells": ([ROW], {"cells": 0}, errno.EINVAL),
    "more cells than the region": ([ROW], {"cells": 65}, errno.ERANGE),
    "most cells": ([ROW], {"cells": (1 << 32) - 1}, errno.ERANGE),
    "overlapping": ([ROW, replace(ROW, offset=1023)], {}, errno.EINVAL),
    "descending": ([replace(ROW, offset=1024), ROW], {}, errno.EINVAL),
    "outside": ([replace(ROW, offset=3073)], {}, errno.ERANGE),
    "offset overflows": ([replace(ROW, offset=(1 << 64) - 64)], {}, errno.ERANGE),
    "stride overflows": ([replace(ROW, cell_stride=BIG)], {}, errno.ERANGE),
    "stride overflows to nothing": ([replace(ROW, cell_stride=1 << 60)], {"cells": 17}, errno.ERANGE),
    "rows overlap": ([replace(ROW, cell_stride=63)], {}, errno.EINVAL),
    "rows of nothing": ([replace(ROW, row_bytes=0)], {}, errno.EINVAL),
    "rows with elements": ([replace(ROW, element_bytes=2)], {}, errno.EINVAL),
    "no such role": ([replace(ROW, role=2)], {}, errno.EINVAL),
    "no region": ([ROW], {"region_bytes": 0}, errno.ERANGE),
    "scattered outside": ([replace(SCATTERED, offset=2049)], {}, errno.ERANGE),
    "scattered without elements": ([replace(SCATTERED, element_bytes=0)], {}, errno.EINVAL),
    "scattered in halves": ([replace(SCATTERED, row_bytes=127)], {}, errno.EINVAL),
    "scattered, elements too wide": (
        [replace(SCATTERED, element_bytes=16, cell_stride=16)],
        {},
        errno.EINVAL,
    ),
    "scattered with gaps": ([replace(SCATTERED, cell_stride=4)], {}, errno.EINVAL),
    "scattered, channels overlap": ([replace(SCATTERED, channel_stride=31)], {}, errno.EINVAL),
    "scattered overflows": ([replace(SCATTERED, channel_stride=BIG)], {}, errno.ERANGE),
    "scattered, most channels": ([replace(SCATTERED, row_bytes=(1 << 32) - 2)], {}, errno.ERANGE),
}


@pytest.mark.parametrize("what", TENSORS)
def test_tensors_that_make_no_sense(what: str, talk: Any) -> None:
    tensors, head, code = TENSORS[what]
    talk.send(Type.TENSORS, talk.tensors_body(0, tensors, **head))
    talk.refusal(code)
    fd = fds.memfd("zcopy-test", 4096)
    talk.send(Type.REGION, talk.region_body(), [fd])
    talk.refusal(errno.EBADMSG)  # they were not taken
    os.close(fd)
    talk.usable()


@pytest.mark.parametrize("slot", [2, (1 << 32) - 1])
def test_no_such_slot(slot: int, talk: Any) -> None:
    talk.send(Type.TENSORS, talk.tensors_body(slot))
    talk.refusal(errno.EBADMSG)
    talk.send(Type.RUNS, talk.runs_body([(0, 1)], slot))
    talk.refusal(errno.EBADMSG)
    talk.send(Type.BEGIN, talk.begin_body(slot=slot))
    assert talk.refusal(errno.EBADMSG).startswith(f"BEGIN on slot {slot}, which is not ready")
    talk.send(Type.DROP, wire.SLOT.pack(slot, 0))
    talk.refusal(errno.EBADMSG)
    talk.usable()


@pytest.mark.parametrize(
    "runs",
    [
        [(0, 17)],
        [(16, 1)],
        [(15, 2)],
        [((1 << 32) - 1, 1)],
        [(1, (1 << 32) - 1)],
        [(0, 0)],
        [(0, 4), (3, 1)],
        [(4, 1), (0, 1)],
        [(i, 1) for i in range(17)],
        [],
    ],
)
def test_runs_that_lie_elsewhere(runs: list[tuple[int, int]], talk: Any) -> None:
    region = talk.ready()
    talk.send(Type.RUNS, talk.runs_body(runs))
    talk.refusal()
    talk.send(Type.BEGIN, talk.begin_body())
    if runs:  # the list is no longer the old one
        assert talk.receive()[0] in (Type.REFUSE, Type.DONE)
    else:  # a message without runs changes nothing: the old list still is what it was
        talk.expect(Type.DONE)
    region.close()
    talk.usable()


def test_half_a_list_of_runs_is_not_written(talk: Any) -> None:
    region = talk.ready()
    talk.send(Type.RUNS, talk.runs_body([(0, 2)], total=2))
    talk.send(Type.BEGIN, talk.begin_body())
    assert talk.refusal(errno.EBADMSG).startswith("BEGIN on slot 0, which is not ready")
    talk.send(Type.RUNS, talk.runs_body([(4, 2)], offset=2, total=2))  # not what follows
    talk.refusal(errno.EBADMSG)
    talk.send(Type.RUNS, talk.runs_body([(4, 2)], offset=1, total=2))
    talk.send(Type.BEGIN, talk.begin_body())
    talk.expect(Type.DONE)
    view = region.view()
    assert [any(view[64 * cell : 64 * cell + 64]) for cell in range(8)] == [1, 1, 0, 0, 1, 1, 0, 0]
    del view
    region.close()


def test_what_must_come_first(talk: Any) -> None:
    talk.send(Type.BEGIN, talk.begin_body())
    talk.refusal(errno.EBADMSG)
    talk.send(Type.RUNS, talk.runs_body([(0, 1)]))
    talk.refusal(errno.EBADMSG)
    talk.send(Type.TENSORS, talk.tensors_body())
    talk.send(Type.BEGIN, talk.begin_body())
    talk.refusal(errno.EBADMSG)
    talk.send(Type.RUNS, talk.runs_body([(0, 1)]))
    talk.send(Type.BEGIN, talk.begin_body())
    talk.refusal(errno.EBADMSG)
    with talk.ready():
        talk.send(Type.DROP, wire.SLOT.pack(0, 0))
        talk.expect(Type.DROPPED)
        talk.send(Type.BEGIN, talk.begin_body())
        talk.refusal(errno.EBADMSG)
        talk.send(Type.DROP, wire.SLOT.pack(0, 0))
        talk.expect(Type.DROPPED)
    assert talk.maps() == ""
    talk.usable()


def test_new_tensors_forget_the_old_mapping(talk: Any) -> None:
    """Rows of a new layout must not go into the old region."""
    with talk.ready():
        talk.send(Type.TENSORS, talk.tensors_body(region_bytes=1 << 40))
        talk.send(Type.RUNS, talk.runs_body([(0, 16)]))
        talk.send(Type.BEGIN, talk.begin_body())
        assert "not ready" in talk.refusal(errno.EBADMSG)
        assert talk.maps() == ""


@pytest.mark.parametrize("op", [0, 6, (1 << 32) - 1])
def test_unknown_operations(op: int, talk: Any) -> None:
    with talk.ready():
        talk.send(Type.BEGIN, talk.begin_body(op=op))
        assert talk.refusal(errno.EINVAL).startswith(f"unknown operation {op}")
        talk.send(Type.BEGIN, talk.begin_body(inject=99))
        talk.refusal(errno.EINVAL)
    talk.usable()
