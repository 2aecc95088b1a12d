"""SAVE writes regular files only, and only its own file goes with the provider; STREAM takes pipes only."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zcopy.native.wire import Type


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
