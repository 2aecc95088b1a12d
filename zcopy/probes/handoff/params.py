"""What a handoff run was asked for: enough to measure the same again, whatever the defaults become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zcopy.errors import UsageError
from zcopy.model import Json
from zcopy.native.wire import Inject
from zcopy.probes.handoff.geometry import Cache, default_ctx
from zcopy.units import size_text

ROUTES: Final = ("shared", "file", "copy", "pipe")
REGIONS: Final = ("reused", "fresh")
POPULATES: Final = ("none", "map", "prefault")
PASSES: Final = ("scm", "inherit")
PROVIDERS: Final = ("plain", "asan")
INJECTS: Final = tuple(each.name.lower().replace("_", "-") for each in Inject if each)
REPS: Final = 5
PATIENCE_NS: Final = 100 * 10**9  # of a run without --reps: with what its last round takes, below two minutes
_MOST_REGION: Final = 1 << 46


@dataclass(frozen=True, slots=True)
class Length:
    """A prompt's cells in a cache of `ctx` cells."""

    cells: int
    ctx: int


@dataclass(frozen=True, slots=True)
class HandoffParams:
    """The options' values. `populate` and `regions` empty mean the defaults of `Variant.of`."""

    cache: Cache
    lengths: tuple[Length, ...]
    routes: tuple[str, ...] = ("shared", "file")
    buffers: tuple[str, ...] = ("memfd",)
    regions: tuple[str, ...] = REGIONS
    populate: tuple[str, ...] = ()
    passing: tuple[str, ...] = ("scm",)
    scatter: bool = False
    reps: int = REPS
    patience_ns: int | None = None  # of a run: see `Rounds`. None: every repetition, however long it takes
    state_dirs: tuple[str, ...] = ()
    provider: str = "plain"
    provider_cmd: tuple[str, ...] = ()
    listen: str = ""
    inject: str = ""
    kernel: str = ""
    deadline_ns: int = 60 * 10**9
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.reps <= 1_000_000:
            raise UsageError(f"--reps {self.reps} is not between 1 and 1000000")
        if self.deadline_ns < 1_000_000:
            raise UsageError("--deadline is shorter than a millisecond")
        if self.listen and (self.provider_cmd or self.provider != "plain" or "inherit" in self.passing):
            raise UsageError(
                "--listen waits for a provider: no --provider-cmd, --provider and --pass inherit"
            )
        for length in self.lengths:
            if not 1 <= length.cells <= length.ctx:
                raise UsageError(f"--cells {length.cells} do not fit into --ctx {length.ctx}")
            if self.fault is Inject.STRIDE and length.cells < 2:
                raise UsageError("--inject stride needs at least 2 cells: the first one lies where it should")
            bytes_ = length.ctx * self.cache.cell_bytes
            if length.ctx >= 1 << 31 or bytes_ > _MOST_REGION:
                raise UsageError(f"--ctx {length.ctx} makes a region of {size_text(bytes_)}")

    @property
    def who(self) -> str:
        """Whose provider it is: one of ours by name, or one that was given or comes."""
        return "listen" if self.listen else "command" if self.provider_cmd else self.provider

    @property
    def fault(self) -> Inject:
        return Inject[self.inject.upper().replace("-", "_")] if self.inject else Inject.NONE

    def document(self) -> dict[str, Json]:
        cache = self.cache
        return {
            "model": cache.geometry.name,
            "rows": [list(row) for row in cache.geometry.rows],
            "head_dim": cache.geometry.head_k,
            "head_dim_v": cache.geometry.head_v,
            "type_k": cache.type_k.name,
            "type_v": cache.type_v.name,
            "v_trans": cache.v_trans,
            "n_rot_k": cache.rotation[0],
            "n_rot_v": cache.rotation[1],
            "cells": [length.cells for length in self.lengths],
            "ctx": [length.ctx for length in self.lengths],
            "route": list(self.routes),
            "buffer": list(self.buffers),
            "region": list(self.regions),
            "populate": list(self.populate),
            "pass": list(self.passing),
            "scatter": self.scatter,
            "reps": self.reps,
            "patience_ns": self.patience_ns,
            "state_dir": list(self.state_dirs),
            "provider": self.provider,
            "provider_cmd": list(self.provider_cmd),
            "listen": self.listen or None,
            "inject": self.inject or None,
            "kernel": self.kernel or None,
            "deadline_ns": self.deadline_ns,
            "seed": self.seed,
        }


def lengths(cells: tuple[int, ...], ctx: tuple[int, ...]) -> tuple[Length, ...]:
    """Pairs of cells and ctx: each its default, one ctx for all, or one for each. Raises UsageError otherwise."""
    if not ctx:
        return tuple(Length(each, default_ctx(each)) for each in cells)
    if len(ctx) not in (1, len(cells)):
        raise UsageError(f"--ctx has {len(ctx)} values for {len(cells)} of --cells", "give one, or as many")
    return tuple(Length(each, ctx[0 if len(ctx) == 1 else i]) for i, each in enumerate(cells))


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to hand a prompt over: what distinguishes a row from the others of its length."""

    route: str
    buffer: str
    region: str
    populate: str | None = None
    passing: str | None = None
    state_dir: str | None = None

    def case(self, params: HandoffParams, length: Length) -> Mapping[str, Json]:
        """The row's case: the options' names with this variant's values."""
        cache = params.cache
        given: dict[str, Json] = {
            "route": self.route, "buffer": self.buffer, "region": self.region, "populate": self.populate,
            "pass": self.passing, "state_dir": self.state_dir, "cells": length.cells, "ctx": length.ctx,
            "model": cache.geometry.name, "type_k": cache.type_k.name, "type_v": cache.type_v.name,
            "v_trans": cache.v_trans, "scatter": params.scatter,
            "provider": params.who,
            "inject": params.inject or None,
        }  # fmt: skip
        return {key: value for key, value in given.items() if value is not None}


def variants(params: HandoffParams, buffer: str, populates: bool) -> Iterator[Variant]:
    """Every variant with this kind of memory; `populates`: whether populating in advance means anything to it."""
    for route in params.routes:
        for region in params.regions:
            yield from _EXPAND[route](params, buffer, region, populates)


def _shared(params: HandoffParams, buffer: str, region: str, populates: bool) -> Iterator[Variant]:
    ways = params.populate or (("prefault",) if region == "reused" else ("none",))
    for populate in ways if populates else ("none",):
        for passing in params.passing:
            yield Variant("shared", buffer, region, populate, passing)


def _file(params: HandoffParams, buffer: str, region: str, _populates: bool) -> Iterator[Variant]:
    """`region` is the file here: overwritten in place, or a new one for each request."""
    for state_dir in params.state_dirs:
        yield Variant("file", buffer, region, state_dir=state_dir)


def _once(route: str, params: HandoffParams, buffer: str, region: str) -> Iterator[Variant]:
    """The bounce buffer and the pipe live as long as their processes: there is no fresh one per request."""
    if region == "reused" or "reused" not in params.regions:
        yield Variant(route, buffer, "reused")


def _copy(params: HandoffParams, buffer: str, region: str, _populates: bool) -> Iterator[Variant]:
    return _once("copy", params, buffer, region)


def _pipe(params: HandoffParams, buffer: str, region: str, _populates: bool) -> Iterator[Variant]:
    return _once("pipe", params, buffer, region)


_EXPAND: Final = {"shared": _shared, "file": _file, "copy": _copy, "pipe": _pipe}
