"""`Region`: the one owner of a mapping and its descriptor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from zcopy.native._zc import ffi, lib
from zcopy.native.calls import NativeError, check
from zcopy.native.maintenance import DmaBufSync, Maintenance, Unneeded


@dataclass(frozen=True, slots=True)
class Export:
    """What another process needs to map a region: a descriptor that stays the region's, and what to check of it."""

    fd: int
    size: int  # bytes
    dmabuf: bool


def _nothing(_keep: object, _at: object) -> None:
    """Lets go."""


class _Mapping:
    """The native mapping. It ends with `unmap`, or with the last view of it: a view can never dangle."""

    def __init__(self, fd: int, size: int, hugetlb: bool) -> None:
        raw = ffi.new("zc_mapping *")
        check(lib.zc_map_hugetlb(size, raw) if hugetlb else lib.zc_map(fd, size, raw))
        self.raw = ffi.gc(raw, lib.zc_unmap, size)


class Region:
    """`size` bytes of memory, mapped shared and writable, and (where the kind has one) its descriptor.

    The mapping is the exporter's own: whoever writes into imported memory writes through this, never through a
    mapping that an importing driver hands out. Views keep the memory mapped; `close` is idempotent.
    """

    def __init__(
        self,
        fd: int,
        size: int,
        *,
        dmabuf: bool = False,
        maintenance: Maintenance | None = None,
        hugetlb: bool = False,
    ) -> None:
        """Maps `size` bytes of `fd` and takes it over, and `maintenance` with it.

        -1 is anonymous memory, private as malloc's, or with `hugetlb` from the pool of 2 MiB pages. Without
        `maintenance`, a dma-buf has DMA_BUF_IOCTL_SYNC and other memory needs none. Raises NativeError, and then `fd`
        and `maintenance` still belong to the caller.
        """
        self._mapping: _Mapping | None = _Mapping(fd, size, hugetlb)
        self.size = size
        self.dmabuf = dmabuf
        self._maintenance = maintenance or (DmaBufSync(fd) if dmabuf else Unneeded())

    @classmethod
    def owning(
        cls, fd: int, size: int, *, dmabuf: bool = False, maintenance: Maintenance | None = None
    ) -> Region:
        """The region of a new descriptor, which is closed where it cannot be mapped, with its `maintenance`.

        Raises NativeError.
        """
        try:
            return cls(fd, size, dmabuf=dmabuf, maintenance=maintenance)
        except NativeError:
            os.close(fd)
            if maintenance is not None:
                maintenance.close()
            raise

    @property
    def _raw(self) -> Any:
        if self._mapping is None:
            raise ValueError("the region is closed")
        return self._mapping.raw

    @property
    def closed(self) -> bool:
        return self._mapping is None

    @property
    def fd(self) -> int:
        """The descriptor, or -1 for memory that has none."""
        return int(self._raw.fd)

    @property
    def pointer(self) -> Any:
        """The mapping as cffi's ``uint8_t *``, which keeps nothing alive: use it while the region is open."""
        return ffi.cast("uint8_t *", self._raw.at)

    @property
    def mapping(self) -> Any:
        """The native ``zc_mapping *``; use it while the region is open."""
        return self._raw

    @property
    def address(self) -> int:
        return int(ffi.cast("uintptr_t", self._raw.at))

    def view(self) -> memoryview:
        """The bytes. The mapping lives at least as long as the view, even after `close`."""
        raw = self._raw
        # The destructor does nothing; that it holds `raw` keeps the mapping until the last view is gone.
        at = ffi.gc(ffi.cast("uint8_t *", raw.at), partial(_nothing, raw))
        return memoryview(ffi.buffer(at, self.size))

    @property
    def synced(self) -> bool:
        """Whether CPU access to this memory has to be opened and closed at all."""
        return not isinstance(self._maintenance, Unneeded)

    @property
    def ranged(self) -> bool:
        """Whether `sync` is for the bytes it names; else it is always for the whole buffer."""
        return self._maintenance.ranged

    def begin(self, *, write: bool = False) -> int:
        """Opens CPU access to all of it; what that took, in ns (0 where nothing is needed). Raises NativeError."""
        return self.sync(end=False, read=True, write=write)

    def end(self, *, write: bool = False) -> int:
        """Closes what `begin` opened with the same `write`; what that took, in ns. Raises NativeError."""
        return self.sync(end=True, read=True, write=write)

    def sync(self, *, end: bool, read: bool, write: bool, offset: int = 0, size: int | None = None) -> int:
        """One call of this memory's maintenance, in ns, for `size` bytes from `offset` (None: to the end).

        The range is clamped to the buffer: one driver takes the whole box down for a range beyond it. Raises
        NativeError.
        """
        if self.closed:
            raise ValueError("the region is closed")
        offset = max(0, min(offset, self.size))
        most = self.size - offset
        within = most if size is None else max(0, min(size, most))
        return self._maintenance.sync(end=end, read=read, write=write, offset=offset, size=within)

    def wait(self, *, write: bool, timeout_ms: int) -> int:
        """Waits for the device's work on a dma-buf, as a SYNC for reading or for writing would; what that took, in ns.

        0 on other memory. Raises NativeError (ETIMEDOUT at the deadline).
        """
        if not self.dmabuf:
            return 0
        return check(
            lib.zc_wait_fences(self.fd, lib.ZC_SYNC_WRITE if write else lib.ZC_SYNC_READ, timeout_ms)
        )

    @contextmanager
    def access(self, *, write: bool = False) -> Iterator[memoryview]:
        """The bytes inside a paired begin and end."""
        self.begin(write=write)
        try:
            yield self.view()
        finally:
            self.end(write=write)

    def populate(self) -> None:
        """Brings every page in, writable. Raises NativeError (EINVAL where the kernel or the kind cannot)."""
        check(lib.zc_populate(self._raw))

    def advise_huge(self) -> None:
        """Asks for 2 MiB pages; to be called before the first touch. Raises NativeError."""
        check(lib.zc_advise_huge(self._raw))

    def collapse(self) -> None:
        """Gathers the pages that are there into 2 MiB pages (Linux 6.1). Raises NativeError."""
        check(lib.zc_collapse(self._raw))

    def export(self) -> Export:
        """What to hand to another process; the descriptor stays ours."""
        return Export(self.fd, self.size, self.dmabuf)

    def close(self) -> None:
        """Gives the memory back, as soon as no view of it is left."""
        self._maintenance.close()
        self._mapping = None

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
