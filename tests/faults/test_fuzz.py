"""Messages that nobody would write, in any order: the provider answers or refuses, and never crashes."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from zcopy.native import fds, wire
from zcopy.native.wire import Type

EDGES = [0, 1, 2, 3, 8, 15, 16, 17, 63, 64, 65, 1024, 4095, 4096, 4097]
WORD = st.sampled_from([*EDGES, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
LONG = st.sampled_from(
    [*EDGES, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 64, (1 << 64) - 1]
)
SLOT = st.sampled_from([0, 0, 0, 0, 1, 2, (1 << 32) - 1])
DESCRIPTOR = st.sampled_from(["none", "memfd", "memfd", "unsealed", "pipe", "null", "two"])


def tensor_bytes(index: int, wild: tuple[int, ...] | None) -> bytes:
    """The index-th of a sound layout, or anything."""
    return struct.pack("<QQQIIII", *(wild or (index * 1024, 64, 0, 64, 0, index // 2, index % 2)))


WILD = st.tuples(LONG, LONG, LONG, WORD, WORD, WORD, WORD)
RUN = st.one_of(st.tuples(st.integers(0, 16), st.integers(0, 4)), st.tuples(WORD, WORD))
SOUND_RUNS = st.sampled_from([[(0, 16)], [(0, 1), (4, 2), (15, 1)], [(3, 5)]])


@st.composite
def tensors(draw: st.DrawFn) -> bytes:
    count = draw(st.integers(0, 4))
    body = b"".join(tensor_bytes(i, draw(st.none() | st.none() | WILD)) for i in range(count))
    announced = draw(st.just(count) | st.just(count) | WORD)
    cells, size = draw(st.just(16) | st.just(16) | WORD), draw(st.just(4096) | st.just(4096) | LONG)
    return wire.TENSORS.pack(draw(SLOT), announced, cells, 1, 1, 0, size) + body


@st.composite
def transposed(draw: st.DrawFn) -> bytes:
    element = draw(st.sampled_from([1, 2, 4, 8]))
    cells, channels = draw(st.integers(1, 16)), draw(st.integers(1, 16))
    body = struct.pack("<QQQIIII", 64, element, element * cells, element * channels, element, 0, 1)
    return wire.TENSORS.pack(draw(SLOT), 1, cells, 1, 1, 0, 4096) + body


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    found = draw(SOUND_RUNS | SOUND_RUNS | st.lists(RUN, max_size=5))
    offset, total = draw(st.just(0) | st.just(0) | WORD), draw(st.just(len(found)) | WORD)
    head = wire.RUNS.pack(draw(SLOT), offset, draw(st.just(len(found)) | WORD), total)
    return head + b"".join(struct.pack("<II", *run) for run in found)


@st.composite
def region(draw: st.DrawFn) -> bytes:
    way, inherited = draw(st.sampled_from([0, 0, 0, 1, 7])), draw(st.integers(-2, 12))
    return wire.REGION.pack(
        draw(SLOT), way, inherited, draw(st.just(1) | WORD), draw(st.just(4096) | LONG), 0
    )


@st.composite
def begin(draw: st.DrawFn) -> bytes:
    op, inject = (
        draw(st.sampled_from([1, 1, 1, 2, 3, 0, 9])),
        draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 6])),
    )
    path = draw(
        st.sampled_from([b"", b"state\0", b"state-2\0", b"fifo\0", b"none/state\0", b"\0", b"a\0b\0"])
    )
    numbers = [draw(WORD) for _ in range(5)]
    head = (op, draw(SLOT), inject, draw(st.integers(0, 3)), draw(LONG), draw(st.integers(-1, 5)), *numbers)
    return wire.BEGIN.pack(*head) + path


BODIES = {
    Type.HELLO: st.builds(
        lambda role, pid: wire.HELLO.pack(role, pid, 0, 0, b"fuzz"), st.just(1) | WORD, WORD
    ),
    Type.TENSORS: tensors() | transposed(),
    Type.REGION: region(),
    Type.RUNS: runs(),
    Type.BEGIN: begin(),
    Type.DROP: st.builds(wire.SLOT.pack, SLOT, WORD),
    Type.PIPE: st.just(b""),
}
Message = tuple[int, bytes, str]


@st.composite
def message(draw: st.DrawFn) -> Message:
    """Mostly well-formed, sometimes with a byte changed, cut off or added, sometimes nonsense."""
    kind = draw(st.sampled_from(list(BODIES)))
    body = draw(BODIES[kind])
    spoilt = draw(st.sampled_from(["", "", "", "", "", "cut", "more", "byte", "kind"]))
    if spoilt == "cut" and body:
        body = body[: draw(st.integers(0, len(body) - 1))]
    elif spoilt == "more":
        body += draw(st.binary(min_size=1, max_size=64))
    elif spoilt == "byte" and body:
        at = draw(st.integers(0, len(body) - 1))
        body = body[:at] + draw(st.binary(min_size=1, max_size=1)) + body[at + 1 :]
    wanted = {Type.REGION: "memfd", Type.PIPE: "pipe"}.get(kind, "none")
    passed = draw(st.just(wanted) | st.just(wanted) | DESCRIPTOR)
    return (draw(st.integers(0, 65535)) if spoilt == "kind" else kind), body, passed


@st.composite
def conversation(draw: st.DrawFn) -> list[Message]:
    """Begins with a sound slot half of the time, so that what follows meets something to break."""
    first: list[Message] = []
    if draw(st.booleans()):
        sound = b"".join(tensor_bytes(i, None) for i in range(4))
        first.append((Type.TENSORS, wire.TENSORS.pack(0, 4, 16, 1, 1, 0, 4096) + sound, "none"))
        first.append((Type.RUNS, wire.RUNS.pack(0, 0, 1, 1) + struct.pack("<II", 0, 8), "none"))
        first.append((Type.REGION, wire.REGION.pack(0, 0, -1, 1, 4096, 0), "memfd"))
    return first + draw(st.lists(message(), min_size=1, max_size=12))


@contextmanager
def passed(kind: str) -> Iterator[list[int]]:
    """The descriptors to pass, and their end. No region has more than a page: no message can ask for much."""
    made: list[int] = []
    if kind in ("memfd", "two"):
        made = [fds.memfd("zcopy-fuzz", 4096) for _ in range(1 + (kind == "two"))]
    elif kind == "unsealed":
        made = [os.memfd_create("zcopy-unsealed", os.MFD_ALLOW_SEALING)]
        os.ftruncate(made[0], 4096)
    elif kind == "pipe":
        reading, writing = os.pipe2(os.O_NONBLOCK)  # a full one must not hold the provider
        made = [writing, reading]
    elif kind == "null":
        made = [os.open("/dev/null", os.O_RDWR)]
    try:
        yield made[:1] if kind == "pipe" else made
    finally:
        if kind == "unsealed":
            os.ftruncate(made[0], 0)  # whoever has mapped it dies at the next touch
        for fd in made:
            os.close(fd)


def hold(talk: Any, said: list[Message]) -> None:
    """Says all of it, then asks for a greeting: every answer before that must be one."""
    for kind, body, descriptor in said:
        with passed(descriptor) as descriptors:
            talk.request += 1
            head = wire.HEAD.pack(wire.MAGIC, wire.VERSION, kind, wire.HEAD.size + len(body), talk.request)
            if kind != Type.BYE:
                talk.raw(head + body, descriptors)
    last = talk.send(Type.HELLO, wire.HELLO.pack(1, 0, 0, 0, b"end"))
    while (answer := talk.receive())[:2] != (Type.HELLO, last):
        kind, request, body = answer
        assert request <= last
        assert kind in (Type.HELLO, Type.MAPPED, Type.DONE, Type.DROPPED, Type.REFUSE)
        assert kind != Type.REFUSE or -wire.REFUSE.unpack(body)[0] in errno.errorcode
    assert "zcopy-unsealed" not in talk.maps()


@pytest.mark.parametrize(("build", "examples"), [("plain", 250), ("asan", 150)])
def test_any_conversation(build: str, examples: int, start: Callable[[str], Any]) -> None:
    talk = start(build)
    os.mkfifo(talk.folder / "fifo")

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(conversation())
    def one(said: list[Message]) -> None:
        nonlocal talk
        if talk.process.poll() is not None:  # the last example's doing, which is now made smaller
            talk = start(build)
        hold(talk, said)
        assert talk.asan_faults == []

    one()
    assert talk.end() in (0, 1)
    assert talk.asan_faults == []
    assert {each.name for each in talk.folder.iterdir()} <= {"stderr", "fifo", "state", "state-2", "a"}
