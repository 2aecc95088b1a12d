"""The decoder's side of one length: its region, its cell table, and the provider that serves it.

Owns everything that a length's variants share, so that 16 399 cells need one cache and one packed source and not
one of each per variant. `close` gives all of it back, whatever state it is in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from random import Random

from zcopy.buffers.base import Buffer
from zcopy.buffers.memfd import sealed
from zcopy.native import rows, wire
from zcopy.native.calls import NativeError, refused
from zcopy.native.cells import Adoption, CellTable
from zcopy.native.listener import Listener
from zcopy.native.provider import Provider, Request, helper
from zcopy.native.region import Region
from zcopy.native.rows import Difference, Layout
from zcopy.probes.handoff import scatter
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.units import size_text


@dataclass(frozen=True)
class Bench:
    """What every variant of a run is handed."""

    params: HandoffParams
    ticks: Callable[[], int]  # monotonic ns
    environ: Mapping[str, str]
    random: Random
    listener: Listener | None = None  # where providers come from that we do not start
    inodes: set[int] = field(default_factory=set)  # of every region the decoder holds now

    def provider(self, inherit: tuple[int, ...] = ()) -> Provider:
        """A new provider process. Raises SkippedError where this build has no such one, PeerError."""
        params = self.params
        name = "zcopy-provider-asan" if params.provider == "asan" else "zcopy-provider"
        own = [str(helper(name)), params.kernel] if params.kernel else [str(helper(name))]
        environ = dict(self.environ)
        # Reports are counted, not fatal; a leak check at exit would look at memory that is not its own.
        environ["ASAN_OPTIONS"] = "halt_on_error=0:detect_leaks=0"
        if self.listener is not None:
            return Provider.met(self.listener, deadline_ns=params.deadline_ns, ticks=self.ticks)
        return Provider.started(
            params.provider_cmd or own,
            deadline_ns=params.deadline_ns, ticks=self.ticks, environ=environ, inherit=inherit,
        )  # fmt: skip

    def nonce(self) -> int:
        """New in each repetition: a reused region must not verify yesterday's bytes. Never 0."""
        return self.random.getrandbits(63) | 1

    def request(self, op: wire.Op, nonce: int, **more: object) -> Request:
        """A request with this run's types and rotation."""
        cache = self.params.cache
        return Request(op, nonce, types=cache.numbers, rotation=cache.rotation, **more)  # type: ignore[arg-type]


class Stage:
    """One length in one kind of memory."""

    def __init__(self, bench: Bench, kind: Buffer, length: Length) -> None:
        self.bench, self.kind, self.length = bench, kind, length
        params = bench.params
        self.runs = (
            scatter.scattered(length.cells, length.ctx, params.seed)
            if params.scatter
            else scatter.contiguous(length.cells)
        )
        tensors, self.region_bytes = params.cache.tensors(length.ctx)
        self.layout = Layout(tensors, length.ctx, self.region_bytes, self.runs)
        packed, self.source_bytes = params.cache.tensors(length.cells)
        self.packed = Layout(packed, length.cells, self.source_bytes, scatter.contiguous(length.cells))
        self.table = self._table()
        self.adoption = self._adoption()
        self._owned = ExitStack()
        self._source: Region | None = None
        self._server: Provider | None = None
        self._target: Region | None = None
        self.target_seed = bench.nonce()

    def _table(self) -> CellTable:
        table = CellTable(self.length.ctx)
        if occupied := scatter.between(self.runs):
            table.adopt(Adoption(range(len(occupied)), [scatter.OTHER_SEQUENCE], cells=occupied))
        table.reserve(scatter.SEQUENCE, self.length.cells)
        return table

    def _adoption(self) -> Adoption:
        pos = rows.positions(self.length.cells)
        if self.bench.params.scatter:
            return Adoption(pos, [scatter.SEQUENCE], cells=scatter.cells_of(self.runs))
        return Adoption(pos, [scatter.SEQUENCE])

    def allocate(self) -> Region:
        """A new region of the kind, to be made known and released by the caller. Raises RefusedError."""
        return self.kind.allocate(self.region_bytes, "zcopy-kv")

    def know(self, region: Region) -> None:
        """The evidence knows the region until `release`: one more of its size is none that was hidden."""
        if region.fd >= 0:
            self.bench.inodes.add(os.fstat(region.fd).st_ino)

    def release(self, region: Region) -> None:
        """Closes a region and forgets it. Idempotent."""
        if not region.closed:
            if region.fd >= 0:
                self.bench.inodes.discard(os.fstat(region.fd).st_ino)
            region.close()

    def give_target(self, region: Region) -> bool:
        """Makes a populated region the decoder's cache for the routes that move bytes, unless there is one already.

        Whether it was taken: then it is the stage's to release.
        """
        if self._target is not None:
            return False
        self._target = region
        self._owned.callback(self.release, region)
        self.dress(region)
        return True

    def target(self) -> Region:
        """The decoder's cache, its guard filled with `target_seed`. Raises RefusedError."""
        if self._target is None:
            region = self.allocate()
            self._owned.callback(self.release, region)
            self.know(region)
            with suppress(NativeError):
                region.populate()
            self._target = region
            self.dress(region)
        return self._target

    def dress(self, region: Region) -> None:
        """Gives the decoder's cache what verification expects around the prompt."""
        self.guard(region, self.target_seed)

    def mend(self) -> None:
        """After a writer that ran wild: the other variants must not find its traces."""
        if self._target is not None and not self._target.closed:
            self.dress(self._target)

    def source(self) -> tuple[Region, Provider]:
        """The provider's packed rows, and the provider: for the routes that move bytes.

        Made at the first call; a provider that has failed one variant is replaced for the next.
        """
        if self._source is None:
            self._source = self._new_source()
            self._owned.callback(self.release, self._source)
            self._owned.callback(self._dismiss)
        if self._server is None or self._server.channel.broken:
            self._dismiss()
            self._server = self.bench.provider()
            self._server.tensors(wire.Slot.SOURCE, self.packed, self.bench.params.cache.numbers)
            self._server.map(wire.Slot.SOURCE, self._source.export())
        return self._source, self._server

    def _dismiss(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _new_source(self) -> Region:
        try:
            region = sealed("zcopy-source", self.source_bytes)
            self.know(region)
            with suppress(NativeError):  # an old kernel cannot populate: then the first, untimed, write does
                region.populate()
        except NativeError as error:
            raise refused(f"a source of {size_text(self.source_bytes)}", error) from error
        return region

    def forget(self) -> None:
        """Takes the prompt out of the cell table again."""
        self.table.remove(scatter.SEQUENCE)

    def verify(self, region: Region, nonce: int, seed: int) -> Difference | None:
        """Rows against the pattern of `nonce`, everything else against the guard of `seed` (0: fresh memory)."""
        holes = not seed and self.kind.capabilities.sparse
        region.begin()
        try:
            wrong = rows.check_rows(region, self.layout, nonce)
            return wrong or rows.check_guard(region, self.layout, seed, holes=holes)
        finally:
            region.end()

    def guard(self, region: Region, seed: int) -> None:
        """Fills everything that the prompt does not own."""
        region.begin(write=True)
        try:
            rows.fill_guard(region, self.layout, seed)
        finally:
            region.end(write=True)

    def close(self) -> None:
        """Ends the source's provider and gives its memory back. Idempotent."""
        self._owned.close()
        self._source = self._target = None
