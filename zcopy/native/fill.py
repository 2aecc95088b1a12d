"""Timed work on memory: filling it by a named method, touching its pages, reading it through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from zcopy.native._zc import ffi, lib
from zcopy.native.calls import check
from zcopy.native.region import Region

MEMSET_BYTE: Final = int(lib.ZC_MEMSET_BYTE)
MOST_THREADS: Final = int(lib.ZC_MOST_THREADS)
CONSTANT: Final = "memset"  # the method that reads nothing: other work, never ranked with the rest


@dataclass(frozen=True, slots=True)
class Mover:
    """A way to fill memory: its method (memcpy, nt, movsb, memset) and the instruction set it is written for."""

    method: str
    isa: str
    raw: Any = None

    @property
    def name(self) -> str:
        return f"{self.method}/{self.isa}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mover) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def movers() -> list[Mover]:
    """Those of this build that this CPU can run, best first within a method."""
    found: list[Mover] = []
    while (raw := lib.zc_mover_at(len(found))) != ffi.NULL:
        found.append(_mover(raw))
    return found


def find_mover(method: str, isa: str = "") -> Mover:
    """The best of a method here, or that of an instruction set. Raises ValueError where this CPU or build lacks it."""
    raw = lib.zc_mover_find(method.encode(), isa.encode())
    if raw == ffi.NULL:
        known = ", ".join(mover.name for mover in movers())
        raise ValueError(
            f"no way to fill called {method}{f'/{isa}' if isa else ''} here (there are: {known})"
        )
    return _mover(raw)


def _mover(raw: Any) -> Mover:
    return Mover(ffi.string(raw.method).decode(), ffi.string(raw.isa).decode(), raw)


@dataclass(frozen=True, slots=True)
class Team:
    """How many threads work, on which CPUs (one each, or none: where the scheduler likes), how often in a row."""

    threads: int = 1
    cpus: tuple[int, ...] = ()
    repeat: int = 1


ALONE: Final = Team()


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a buffer: `size` of them from `offset` on."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


def fill(to: Region, source: Region, span: Span, mover: Mover, team: Team = ALONE) -> int:
    """Moves the bytes of `span` from `source` to the same place in `to`, `team.repeat` times; ns from all threads'
    start to the last one's end, of all repetitions together. Raises NativeError.
    """
    threads, cpus = team.threads, team.cpus
    if not _within(span, min(to.size, source.size)) or (cpus and len(cpus) != threads):
        raise ValueError(
            f"{span.size} bytes from {span.offset} on, of {source.size} into {to.size},"
            f" by {threads} threads on {list(cpus)}"
        )
    keep = ffi.new("int32_t[]", list(cpus)) if cpus else ffi.NULL
    ends = (to.pointer + span.offset, source.pointer + span.offset)
    job = ffi.new("zc_fill_job *", (mover.raw, *ends, span.size, threads, team.repeat, keep))
    ns = ffi.new("uint64_t *")
    check(lib.zc_fill(job, ns))
    return int(ns[0])


def _within(span: Span, size: int) -> bool:
    return span.offset >= 0 and span.size > 0 and span.end <= size


def touch(region: Region, size: int, page: int = 4096) -> tuple[int, int]:
    """Writes one byte of each page; ns, and the minor page faults of this thread."""
    if not 0 < size <= region.size or page <= 0:
        raise ValueError(f"{size} bytes of {region.size} in pages of {page}")
    ns, faults = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    lib.zc_touch(region.pointer, size, page, ns, faults)
    return int(ns[0]), int(faults[0])


def read_through(region: Region, size: int) -> int:
    """Reads every 64-byte line of the first `size` bytes once; ns."""
    if not 0 < size <= region.size:
        raise ValueError(f"{size} bytes of {region.size}")
    return int(lib.zc_read_through(region.pointer, size, ffi.new("uint64_t *")))
