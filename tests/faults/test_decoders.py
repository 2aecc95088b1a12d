"""Decoders that misbehave in front of the real provider: it refuses with a sentence, and neither crashes nor writes."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zcopy.native import fds, wire
from zcopy.native.rows import K, Tensor, V
from zcopy.native.wire import Type

SCM_CREDENTIALS = 2
SECTORS = 4096

Maker = Callable[[Path], int]


def memfd(size: int, *seals: int) -> int:
    fd = os.memfd_create("zcopy-bad", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    import fcntl

    for seal in seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seal)
    return fd


def regular(folder: Path) -> int:
    path = folder / "regular"
    path.write_bytes(bytes(SECTORS))
    return os.open(path, os.O_RDWR)


def pipe_end(_folder: Path) -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def read_only(_folder: Path) -> int:
    """A sealed memfd that was opened again without the right to write."""
    fd = fds.memfd("zcopy-bad", SECTORS)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    return again


SHRINK, GROW, WRITE = 2, 4, 8  # F_SEAL_*
NOT_SEALED = "the region's descriptor is not sealed against shrinking and growing"
NOT_REGIONS: dict[str, tuple[Maker, int, str]] = {
    "pipe": (pipe_end, errno.EPERM, NOT_SEALED),
    "regular file": (regular, errno.EPERM, NOT_SEALED),
    "directory": (lambda folder: os.open(folder, os.O_RDONLY), errno.EPERM, NOT_SEALED),
    "device": (lambda _: os.open("/dev/null", os.O_RDWR), errno.EPERM, NOT_SEALED),
    "socket": (lambda _: socket.socket(socket.AF_UNIX).detach(), errno.EPERM, NOT_SEALED),
    "memfd without seals": (lambda _: memfd(SECTORS), errno.EPERM, NOT_SEALED),
    "memfd that may grow": (lambda _: memfd(SECTORS, SHRINK), errno.EPERM, NOT_SEALED),
    "memfd that may shrink": (lambda _: memfd(SECTORS, GROW), errno.EPERM, NOT_SEALED),
    "memfd too small": (
        lambda _: memfd(SECTORS - 1, SHRINK, GROW),
        errno.EOVERFLOW,
        "the region's descriptor is smaller than announced",
    ),
    "memfd sealed against writing": (
        lambda _: memfd(SECTORS, SHRINK, GROW, WRITE),
        errno.EPERM,
        "mapping the region",
    ),
    "memfd open for reading": (read_only, errno.EACCES, "mapping the region"),
}


@pytest.mark.parametrize("what", NOT_REGIONS)
def test_what_is_no_region_is_not_mapped(what: str, talk: Any, tmp_path: Path) -> None:
    make, code, sentence = NOT_REGIONS[what]
    talk.hello()
    before = talk.descriptors()
    fd = make(tmp_path)
    talk.send(Type.TENSORS, talk.tensors_body())
    talk.send(Type.REGION, talk.region_body(), [fd])
    os.close(fd)
    assert talk.refusal(code) == f"{sentence}: {os.strerror(code)}"
    assert talk.maps() == ""
    assert talk.descriptors() == before
    talk.usable()


def test_an_unsealed_memfd_is_not_mapped_as_a_dma_buf_either(talk: Any) -> None:
    fd = memfd(SECTORS)
    talk.send(Type.TENSORS, talk.tensors_body())
    for flags, code, sentence in (
        (2, errno.ENOTTY, "the region's descriptor is not a dma-buf"),
        (3, errno.ENOTTY, "the region's descriptor is not a dma-buf"),
        (0, errno.EMEDIUMTYPE, "the region is announced neither as sealed nor as a dma-buf"),
    ):
        talk.send(Type.REGION, talk.region_body(flags=flags), [fd])
        assert talk.refusal(code).startswith(sentence)
    os.ftruncate(fd, 0)
    assert talk.maps() == ""
    os.close(fd)
    talk.usable()


@pytest.mark.parametrize(
    ("body", "descriptor", "sentence"),
    [
        ({}, False, "REGION came without a descriptor"),
        ({"way": 1, "fd": -1}, False, "the inherited descriptor -1"),
        ({"way": 1, "fd": 1000}, False, "the inherited descriptor 1000"),
        ({"way": 1, "fd": 0}, False, NOT_SEALED),
        ({"way": 1, "fd": 0}, True, "a REGION that fits no slot or way of passing"),
        ({"way": 7}, True, "a REGION that fits no slot or way of passing"),
        ({"slot": 1}, True, "a REGION that fits no slot or way of passing"),  # it has no tensors yet
        ({"slot": 2}, True, "a REGION that fits no slot or way of passing"),
        ({"slot": 1 << 31}, True, "a REGION that fits no slot or way of passing"),
        ({"size": 4095}, True, "the region is smaller than its tensors"),
        ({"size": 4097}, True, "the region's descriptor is smaller than announced"),
        ({"size": 0}, True, "the region is smaller than its tensors"),
        ({"size": (1 << 64) - 1}, True, "the region's descriptor is smaller than announced"),
    ],
)
def test_a_region_that_does_not_fit(body: dict[str, int], descriptor: bool, sentence: str, talk: Any) -> None:
    talk.send(Type.TENSORS, talk.tensors_body())
    talk.hello()
    before = talk.descriptors()
    fd = fds.memfd("zcopy-test", 4096)
    talk.send(Type.REGION, talk.region_body(**body), [fd] if descriptor else [])
    os.close(fd)
    assert talk.refusal().startswith(sentence)
    assert talk.descriptors() == before
    talk.usable()


def test_descriptors_where_none_belong(talk: Any) -> None:
    """They are closed, and the message is as good as without."""
    talk.hello()
    before = talk.descriptors()
    with Path("/dev/null").open() as null:
        talk.send(Type.HELLO, wire.HELLO.pack(1, 0, 0, 0, b""), [null.fileno()])
        talk.expect(Type.HELLO)
        talk.raw(b"nonsense", [null.fileno()])
        talk.refusal(errno.EBADMSG, request=0)
        talk.send(Type.DONE, b"", [null.fileno()])
        talk.refusal(errno.EBADMSG)
        for count in (2, 5, 8, 100):
            talk.send(Type.REGION, talk.region_body(), [null.fileno()] * count)
            talk.refusal(errno.EPROTO if count <= 8 else errno.EMFILE, request=0)
    assert talk.descriptors() == before
    talk.usable()


def test_a_dropped_descriptor_is_seen(talk: Any) -> None:
    talk.send(Type.TENSORS, talk.tensors_body())
    talk.hello()
    fd = fds.memfd("zcopy-test", 4096)
    _, hard = resource.prlimit(talk.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(talk.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    talk.send(Type.REGION, talk.region_body(), [fd])
    assert talk.refusal(errno.EMFILE, request=0).startswith("a message's descriptor was dropped on the way")
    talk.send(Type.REGION, talk.region_body(way=1, fd=0))
    assert talk.refusal(errno.EMFILE).startswith("the inherited descriptor 0")
    resource.prlimit(talk.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    os.close(fd)
    talk.usable()


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


@pytest.mark.parametrize("op", [0, 4, (1 << 32) - 1])
def test_unknown_operations(op: int, talk: Any) -> None:
    with talk.ready():
        talk.send(Type.BEGIN, talk.begin_body(op=op))
        assert talk.refusal(errno.EINVAL).startswith(f"unknown operation {op}")
        talk.send(Type.BEGIN, talk.begin_body(inject=99))
        talk.refusal(errno.EINVAL)
    talk.usable()


# SAVE: nothing but a regular file that it may open is written, and only what it made is removed.


@pytest.fixture
def save(talk: Any) -> Iterator[Callable[..., None]]:
    region = talk.ready()

    def send(path: Path | bytes, flags: int = 0) -> None:
        raw = path if isinstance(path, bytes) else os.fsencode(path) + b"\0"
        talk.send(Type.BEGIN, talk.begin_body(op=2, flags=flags) + raw)

    yield send
    region.close()


def link(path: Path) -> None:
    (path.parent / "target").write_text("precious")
    path.symlink_to(path.parent / "target")


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (link, errno.ELOOP),
        (lambda path: path.symlink_to(path.parent / "new"), errno.ELOOP),
        (lambda path: os.mkfifo(path), errno.ENXIO),
        (lambda path: path.mkdir(), errno.EISDIR),
    ],
    ids=["link", "dangling link", "fifo", "directory"],
)
def test_save_onto_what_is_no_file(
    place: Callable[[Path], None], code: int, talk: Any, save: Callable[..., None], tmp_path: Path
) -> None:
    path = tmp_path / "state"
    place(path)
    before = path.lstat()
    save(path)
    assert talk.refusal(code).startswith(str(path)[:100])
    save(path, flags=2)
    assert talk.refusal(errno.EEXIST).startswith(str(path)[:100])
    talk.usable()
    assert talk.end() == 0
    after = path.lstat()
    assert (after.st_mode, after.st_size, after.st_mtime_ns) == (
        before.st_mode,
        before.st_size,
        before.st_mtime_ns,
    )
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "target").exists() or (tmp_path / "target").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device node")
def test_save_onto_a_device_leaves_it(talk: Any, save: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError as reason:
        pytest.skip(f"mknod: {reason.strerror}")
    save(path)
    assert talk.refusal() != ""
    assert talk.end() == 0
    assert stat.S_ISCHR(path.lstat().st_mode)


@pytest.mark.parametrize(
    ("path", "code", "sentence"),
    [
        (b"missing/folder/state\0", errno.ENOENT, "missing/folder/state: No such file"),
        (b"state", errno.EBADMSG, "a path of 5 bytes"),
        (b"", errno.EBADMSG, "SAVE without a path"),
        (b"\0", errno.EBADMSG, "SAVE without a path"),
        (b"\0\0", errno.ENOENT, ": No such file"),
        (b"x" * 300 + b"\0", errno.ENAMETOOLONG, "x" * 100),
        (b"x/" * 2047 + b"x\0", errno.ENOENT, "x/" * 50),
        (b"x" * 4096 + b"\0", errno.EBADMSG, "a path of 4097 bytes"),
    ],
)
def test_save_to_no_path(path: bytes, code: int, sentence: str, talk: Any, save: Callable[..., None]) -> None:
    save(path)
    assert talk.refusal(code).startswith(sentence)
    assert sorted(each.name for each in talk.folder.iterdir()) == ["stderr"]
    talk.usable()


def test_only_its_own_file_goes_with_it(talk: Any, save: Callable[..., None], tmp_path: Path) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    theirs.write_text("x" * 100_000)
    for path in (own, theirs):
        save(path)
        talk.expect(Type.DONE)
    assert theirs.stat().st_size == own.stat().st_size > 2048
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert talk.end() == 0
    assert theirs.exists()
    assert not own.exists()


def test_a_full_disk_is_a_sentence(talk: Any, save: Callable[..., None], tmp_path: Path) -> None:
    resource.prlimit(talk.process.pid, resource.RLIMIT_FSIZE, (100, 100))
    path = tmp_path / "state"
    save(path)
    kind, *_ = talk.receive()  # SIGXFSZ must not have ended it
    assert kind == Type.REFUSE
    talk.hello()


# PIPE and STREAM.


def test_what_is_no_pipe(talk: Any) -> None:
    with talk.ready():
        talk.send(Type.PIPE)
        assert talk.refusal(errno.EBADF).startswith("PIPE came without a descriptor")
        with Path("/dev/null").open("wb") as null:
            talk.send(Type.PIPE, b"", [null.fileno()])
            assert talk.refusal(errno.EBADMSG).startswith("a PIPE whose descriptor is not a pipe")
        talk.send(Type.BEGIN, talk.begin_body(op=3))
        assert talk.refusal(errno.EBADF).startswith("no PIPE was passed")
    talk.usable()


def test_a_pipe_that_nobody_reads(talk: Any) -> None:
    reading, writing = os.pipe()
    with talk.ready():
        talk.send(Type.PIPE, b"", [writing])
        os.close(writing)
        talk.hello()
        os.close(reading)
        talk.send(Type.BEGIN, talk.begin_body(op=3))
        assert talk.refusal(errno.EPIPE).startswith("writing to the pipe")
    talk.usable()


def test_a_pipe_that_can_only_be_read(talk: Any) -> None:
    reading, writing = os.pipe()
    with talk.ready():
        talk.send(Type.PIPE, b"", [reading])
        talk.send(Type.BEGIN, talk.begin_body(op=3))
        talk.refusal(errno.EBADF)
    for fd in (reading, writing):
        os.close(fd)
    talk.usable()
