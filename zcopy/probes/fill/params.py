"""What a fill run was asked for: enough to measure the same again, whatever the defaults become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zcopy.buffers.base import PAGE
from zcopy.errors import UsageError
from zcopy.model import Json
from zcopy.native.fill import CONSTANT, MOST_THREADS, Span
from zcopy.units import GIB, KIB, size_text

METHODS: Final = ("memcpy", "nt", "movsb", "memset", "auto")
FLUSH: Final = "flush"  # by line, from user space: means something on any cached mapping
SYNCS: Final = ("none", "clean", "full", FLUSH)
_OF_DMABUFS: Final = ("none", "clean", "full")
POPULATES: Final = ("none", "prefault")
BASE_BUFFER: Final = "anon"  # with BASE_METHOD: ordinary cached memory, what every row is held against
BASE_METHOD: Final = "memcpy"
_LEAST, _MOST = KIB, 64 * GIB
LINE: Final = 64  # bytes: less than a line of the cache is a line all the same


@dataclass(frozen=True, slots=True)
class FillParams:
    """The options' values. Sizes in bytes; `syncs` empty: all that mean something on a kind; `ranges`: what is touched
    and synced of each buffer, empty: all of it."""

    buffers: tuple[str, ...]
    sizes: tuple[int, ...]
    methods: tuple[str, ...] = ("memcpy", "nt", "movsb", "auto")
    isa: str = ""
    syncs: tuple[str, ...] = ()
    ranges: tuple[int, ...] = ()
    populate: tuple[str, ...] = ("none",)
    threads: tuple[int, ...] = (1,)
    cpus: tuple[int, ...] = ()
    reps: int = 7
    seed: int = 1

    def __post_init__(self) -> None:
        for size in self.sizes:
            if not _LEAST <= size <= _MOST:
                raise UsageError(
                    f"--size {size_text(size)} is not between {size_text(_LEAST)} and {size_text(_MOST)}"
                )
        for part in self.ranges:
            if not LINE <= part <= max(self.sizes):
                raise UsageError(
                    f"--range {size_text(part)} is not between {LINE} bytes and the largest --size"
                )
        for count in self.threads:
            if not 1 <= count <= MOST_THREADS:
                raise UsageError(f"--threads {count} is not between 1 and {MOST_THREADS}")
        if not 1 <= self.reps <= 1_000_000:
            raise UsageError(f"--reps {self.reps} is not between 1 and 1000000")
        if self.cpus and max(self.threads) > len(self.cpus):
            raise UsageError(
                f"--threads {max(self.threads)} needs as many --cpus, there are {len(self.cpus)}"
            )

    def document(self) -> dict[str, Json]:
        return {
            "buffer": list(self.buffers),
            "size": list(self.sizes),
            "method": list(self.methods),
            "isa": self.isa or None,
            "sync": list(self.syncs),
            "range": list(self.ranges),
            "populate": list(self.populate),
            "threads": list(self.threads),
            "reps": self.reps,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """One way to fill one kind of memory."""

    buffer: str
    method: str
    size: int
    sync: str
    threads: int
    range: int = 0  # bytes that are touched and synced; 0: all of the buffer
    populate: str = "none"  # prefault: the kernel brings all pages in before the first touch

    def document(self, isa: str | None) -> Mapping[str, Json]:
        case: dict[str, Json] = {
            "buffer": self.buffer, "method": self.method, "size": self.size, "sync": self.sync,
            "threads": self.threads, "source": "ram",
        }  # fmt: skip
        optional = {"isa": isa, "range": self.range, "populate": self.populate.removeprefix("none")}
        return {**case, **{key: value for key, value in optional.items() if value}}

    @property
    def span(self) -> Span:
        """What is filled: from the middle of the buffer on where it is a part, for an offset that is ignored shows."""
        if not self.range:
            return Span(0, self.size)
        return Span((self.size - self.range) // 2 // PAGE * PAGE, self.range)

    @property
    def constant(self) -> bool:
        """Whether the work is another than copying: it reads nothing and is never ranked with the rest."""
        return self.method == CONSTANT


def ways(params: FillParams, buffer: str, populates: bool) -> tuple[str, ...]:
    """How the pages of a kind come in; `populates`: whether bringing them in beforehand means anything to it."""
    asked = params.populate if populates and buffer in params.buffers else ("none",)
    return ("none", *(way for way in asked if way != "none")) if buffer == BASE_BUFFER else asked


def cases(params: FillParams, buffer: str, populate: str, size: int, synced: bool) -> Iterator[Case]:
    """Every case of one kind and size that was asked for, the plain cached memcpys first where this is their memory.

    `synced`: whether CPU access to it has to be opened and closed at all.
    """
    if (buffer, populate) == (BASE_BUFFER, "none"):
        yield from _bases(params, size)
    if buffer in params.buffers and (populate in params.populate or buffer != BASE_BUFFER):
        yield from _asked(params, buffer, populate, size, synced)


def _asked(params: FillParams, buffer: str, populate: str, size: int, synced: bool) -> Iterator[Case]:
    for method in params.methods:
        for sync in params.syncs or (_OF_DMABUFS if synced else ("none",)):
            if sync in ("none", FLUSH) or synced:
                for part in _parts(params, size):
                    for threads in params.threads:
                        yield Case(buffer, method, size, sync, threads, part, populate)


def _bases(params: FillParams, size: int) -> Iterator[Case]:
    """The plain cached memcpy of as many bytes by as many threads, for every row to be held against."""
    for part in _parts(params, size):
        for threads in params.threads:
            yield Case(BASE_BUFFER, BASE_METHOD, size, "none", threads, part)


def _parts(params: FillParams, size: int) -> tuple[int, ...]:
    """The ranges that a buffer of this size is filled by; 0 for all of it, which they are held against."""
    narrower = sorted({part for part in params.ranges if part < size})
    return (*narrower, 0)
