"""A log by its name as it grows, is rotated, cut, removed and made anew: real files, looked at step by step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from zcopy.ingest.follow import Follower, read_all
from zcopy.ingest.reading import Turn

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture
def followed(log: Path) -> Iterator[Iterator[bytes | Turn]]:
    with Follower(log) as follower:
        yield follower.pieces()


def now(pieces: Iterator[bytes | Turn]) -> list[bytes | Turn]:
    """Everything up to the next pause."""
    return list(takewhile(lambda piece: piece is not Turn.IDLE, pieces))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_log_that_grows(log: Path, followed: Iterator[bytes | Turn]) -> None:
    assert now(followed) == []
    append(log, b"one\ntw")
    assert now(followed) == [b"one\ntw"]
    assert now(followed) == []
    append(log, b"o\n")
    assert now(followed) == [b"o\n"]


def test_a_log_that_is_there_is_read_from_its_beginning(log: Path) -> None:
    append(log, b"one\n")
    with Follower(log) as follower:
        assert follower.there
        assert follower.size == 4
        assert now(follower.pieces()) == [b"one\n"]


def test_a_log_larger_than_a_piece(log: Path, followed: Iterator[bytes | Turn]) -> None:
    data = os.urandom(1_000_000)
    append(log, data)
    assert b"".join(piece for piece in now(followed) if isinstance(piece, bytes)) == data


def test_rotation_by_renaming(log: Path, followed: Iterator[bytes | Turn]) -> None:
    append(log, b"one\n")
    assert now(followed) == [b"one\n"]
    writer = log.open("ab", buffering=0)
    log.rename(log.with_suffix(".1"))
    assert now(followed) == []
    log.touch()  # logrotate makes the new file before the writer turns to it
    writer.write(b"late\n")
    assert now(followed) == [b"late\n"]
    writer.write(b"later\n")
    append(log, b"new\n")
    assert now(followed) == [b"later\n", Turn.ROTATED, b"new\n"]
    writer.close()


def test_rotation_twice_between_two_looks(log: Path, followed: Iterator[bytes | Turn]) -> None:
    append(log, b"one\n")
    assert now(followed) == [b"one\n"]
    log.rename(log.with_suffix(".2"))
    append(log, b"two\n")
    log.rename(log.with_suffix(".1"))
    append(log, b"three\n")
    assert now(followed) == [Turn.ROTATED, b"three\n"]  # nobody could have known of the second


def test_removed_and_made_anew(log: Path, followed: Iterator[bytes | Turn]) -> None:
    append(log, b"one\n")
    assert now(followed) == [b"one\n"]
    log.unlink()
    assert now(followed) == []
    append(log, b"two\n")
    assert now(followed) == [Turn.ROTATED, b"two\n"]


def test_truncation(log: Path, followed: Iterator[bytes | Turn]) -> None:
    append(log, b"one\ntwo\n")
    assert now(followed) == [b"one\ntwo\n"]
    os.truncate(log, 0)
    assert now(followed) == [Turn.TRUNCATED]
    append(log, b"new\n")
    assert now(followed) == [b"new\n"]


def test_truncation_after_which_more_was_written_than_was_lost(
    log: Path, followed: Iterator[bytes | Turn]
) -> None:
    append(log, b"one\ntwo\n")
    assert now(followed) == [b"one\ntwo\n"]
    log.write_bytes(b"a line that is longer than all there was\n")
    assert now(followed) == [Turn.TRUNCATED, b"a line that is longer than all there was\n"]


def test_a_writer_that_goes_on_where_it_was_after_a_truncation(
    log: Path, followed: Iterator[bytes | Turn]
) -> None:
    """Without O_APPEND it leaves a hole, which reads as NULs."""
    with log.open("wb", buffering=0) as writer:
        writer.write(b"x" * 1000 + b"\n")
        now(followed)
        os.truncate(log, 0)
        writer.write(b"new\n")
        turn, data = now(followed)
        assert turn is Turn.TRUNCATED
        assert isinstance(data, bytes)
        assert data.replace(b"\0", b"") == b"new\n"


def test_only_what_is_new(log: Path) -> None:
    append(log, b"old\n")
    with Follower(log, new=True) as follower:
        pieces = follower.pieces()
        assert now(pieces) == []
        append(log, b"new\n")
        assert now(pieces) == [b"new\n"]


def test_only_what_is_new_in_the_middle_of_a_line(log: Path) -> None:
    append(log, b"old\nha")
    with Follower(log, new=True) as follower:
        pieces = follower.pieces()
        assert now(pieces) == [Turn.INSIDE]
        append(log, b"lf\nnew\n")
        assert now(pieces) == [b"lf\nnew\n"]


def test_all_of_a_log_that_comes_later_is_new(log: Path) -> None:
    with Follower(log, new=True) as follower:
        pieces = follower.pieces()
        assert now(pieces) == []
        assert not follower.there
        append(log, b"one\n")
        assert now(pieces) == [b"one\n"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_refused(log: Path, make: object) -> None:
    make(log)  # type: ignore[operator]
    with pytest.raises(OSError, match="no regular file"):
        Follower(log)


def test_closing_twice_is_closing(log: Path) -> None:
    append(log, b"one\n")
    follower = Follower(log)
    follower.close()
    follower.close()


def test_reading_once(log: Path) -> None:
    append(log, b"x" * 1_000_000)
    with log.open("rb") as file:
        assert b"".join(read_all(file.fileno())) == b"x" * 1_000_000
