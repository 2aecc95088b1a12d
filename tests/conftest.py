"""What every area shares: whether a test, or a hundred calls, have left anything behind."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: how long an example takes, or how long it takes to think of one, says nothing.
settings.register_profile("zcopy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zcopy")


@dataclass(frozen=True)
class Held:
    """What this process holds: descriptors by target, shared mappings by name (bytes), living or dead children.

    Of private memory only the sum is kept: the allocators of C and Python keep some of what was freed. Reserved address
    space may shrink, as an allocator makes memory of what it had reserved.
    """

    fds: Counter[str]
    mappings: Counter[str]
    children: frozenset[int]
    reserved: int
    private: int


def _targets() -> Iterator[str]:
    for fd in Path("/proc/self/fd").iterdir():
        try:
            yield os.readlink(fd)  # noqa: PTH115
        except OSError:
            continue  # the listing's own


def _children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
        if parent == os.getpid():
            yield int(stat.parent.name)


def _mappings() -> tuple[Counter[str], int, int]:
    """Shared mappings by name, the bytes of reserved address space, and those of private writable memory."""
    shared: Counter[str] = Counter()
    reserved = private = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, _, _, _, *name = line.split(maxsplit=5)
        first, _, end = span.partition("-")
        size = int(end, 16) - int(first, 16)
        if mode.endswith("s"):
            shared[f"{mode} {' '.join(name)}"] += size
        elif mode == "---p" and not name:
            reserved += size
        elif mode == "rw-p":
            private += size
    return shared, reserved, private


def _held() -> Held:
    gc.collect()
    shared, reserved, private = _mappings()
    return Held(Counter(_targets()), shared, frozenset(_children()), reserved, private)


@pytest.fixture
def held() -> Callable[[], Held]:
    """Asks what this process holds now."""
    return _held


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fails a test after which this process holds a descriptor, a shared mapping or a child more (or less)."""
    before = _held()
    yield
    after = _held()
    assert after.fds == before.fds
    assert after.children == before.children
    assert after.mappings == before.mappings
    assert after.reserved <= before.reserved
