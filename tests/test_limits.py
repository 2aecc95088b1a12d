"""What this process is short of, in words."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zcopy import limits


@contextmanager
def lowered(which: int, amount: int) -> Iterator[None]:
    """A soft limit, given back afterwards."""
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (amount, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


def fault(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), name)


def test_a_limit_is_named_as_ulimit_names_it() -> None:
    with lowered(resource.RLIMIT_FSIZE, 20 << 10):
        assert limits.reason(fault(errno.EFBIG)) == "File too large, ulimit -f is 20 KiB"
    with lowered(resource.RLIMIT_NOFILE, 256):
        assert limits.behind(fault(errno.EMFILE)) == "ulimit -n is 256"
    with lowered(resource.RLIMIT_AS, 64 << 30), lowered(resource.RLIMIT_DATA, 32 << 30):
        assert limits.behind(fault(errno.ENOMEM)) == "ulimit -v is 64 GiB, ulimit -d is 32 GiB"


@pytest.mark.parametrize("number", [errno.EFBIG, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.ENOENT])
def test_no_limit_is_named_where_there_is_none(number: int) -> None:
    assert limits.behind(fault(number)) is None
    assert limits.reason(fault(number)) == os.strerror(number)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (fault(errno.ENOSPC, "/a"), "/a: No space left on device"),
        (fault(errno.EDQUOT), "Disk quota exceeded"),
        (MemoryError(), "Cannot allocate memory"),
        (fault(errno.EINVAL, "/a"), None),
        (ImportError("no name"), None),
        (ValueError("a bug"), None),
    ],
)
def test_what_is_short_is_no_bug(error: Exception, said: str | None) -> None:
    assert limits.shortage(error) == said


def test_a_library_that_does_not_load_under_a_limit() -> None:
    with lowered(resource.RLIMIT_AS, 64 << 30):
        assert limits.shortage(ImportError("lib.so: failed")) == "lib.so: failed, ulimit -v is 64 GiB"
        assert limits.shortage(ModuleNotFoundError("no module")) is None


def test_descriptors_are_counted_by_opening_them() -> None:
    held = sorted(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    with lowered(resource.RLIMIT_NOFILE, held[-1] + 1):
        free = held[-1] + 1 - len(held) + 1  # one of `held` was that of the listing
        assert limits.too_few_descriptors(free) is None
        assert limits.too_few_descriptors(free + 1) == f"ulimit -n is {held[-1] + 1}"
    assert sorted(int(name) for name in os.listdir("/proc/self/fd")) == held  # noqa: PTH208
