"""Decoders that pass the wrong descriptors to the real provider: nothing is mapped, nothing leaks, nothing crashes."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.native import fds, wire
from zcopy.native.wire import Type

SECTORS = 4096

Maker = Callable[[Path], int]


def memfd(size: int, *seals: int) -> int:
    fd = os.memfd_create("zcopy-bad", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
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
