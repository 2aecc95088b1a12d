"""What a fill run was asked for: enough to measure the same again, whatever the defaults become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zcopy.errors import UsageError
from zcopy.model import Json
from zcopy.native.fill import CONSTANT, MOST_THREADS
from zcopy.units import GIB, KIB, size_text

METHODS: Final = ("memcpy", "nt", "movsb", "memset", "auto")
SYNCS: Final = ("none", "clean", "full")
BASE_BUFFER: Final = "anon"  # with BASE_METHOD: ordinary cached memory, what every row is held against
BASE_METHOD: Final = "memcpy"
_LEAST, _MOST = KIB, 64 * GIB


@dataclass(frozen=True, slots=True)
class FillParams:
    """The options' values. Sizes in bytes; `syncs` empty: each kind's own (`Case.all_of`)."""

    buffers: tuple[str, ...]
    sizes: tuple[int, ...]
    methods: tuple[str, ...] = ("memcpy", "nt", "movsb", "auto")
    isa: str = ""
    syncs: tuple[str, ...] = ()
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

    def document(self, isa: str | None) -> Mapping[str, Json]:
        case: dict[str, Json] = {
            "buffer": self.buffer, "method": self.method, "size": self.size, "sync": self.sync,
            "threads": self.threads, "source": "ram",
        }  # fmt: skip
        return {**case, "isa": isa} if isa else case

    @property
    def is_base(self) -> bool:
        return (self.buffer, self.method, self.sync) == (BASE_BUFFER, BASE_METHOD, "none")

    @property
    def constant(self) -> bool:
        """Whether the work is another than copying: it reads nothing and is never ranked with the rest."""
        return self.method == CONSTANT


def cases(params: FillParams, buffer: str, size: int, dmabuf: bool) -> Iterator[Case]:
    """Every case of one kind and size; a sync means something on a dma-buf only."""
    syncs = params.syncs or (SYNCS if dmabuf else ("none",))
    for method in params.methods:
        for sync in syncs:
            for threads in params.threads:
                if sync == "none" or dmabuf:
                    yield Case(buffer, method, size, sync, threads)


def base(size: int, threads: int) -> Case:
    """The plain cached memcpy of the same size by as many threads."""
    return Case(BASE_BUFFER, BASE_METHOD, size, "none", threads)
