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

    def __init__(self, fd: int, size: int) -> None:
        raw = ffi.new("zc_mapping *")
        check(lib.zc_map(fd, size, raw))
        self.raw = ffi.gc(raw, lib.zc_unmap, size)


class Region:
    """`size` bytes of memory, mapped shared and writable, and (where the kind has one) its descriptor.

    The mapping is the exporter's own: whoever writes into imported memory writes through this, never through a
    mapping that an importing driver hands out. Views keep the memory mapped; `close` is idempotent.
    """

    def __init__(self, fd: int, size: int, *, dmabuf: bool = False) -> None:
        """Maps `size` bytes of `fd` and takes it over (-1: anonymous memory).

        Raises NativeError, and then `fd` still belongs to the caller.
        """
        self._mapping: _Mapping | None = _Mapping(fd, size)
        self.size = size
        self.dmabuf = dmabuf

    @classmethod
    def owning(cls, fd: int, size: int, *, dmabuf: bool = False) -> Region:
        """The region of a new descriptor, which is closed where it cannot be mapped. Raises NativeError."""
        try:
            return cls(fd, size, dmabuf=dmabuf)
        except NativeError:
            os.close(fd)
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

    def begin(self, *, write: bool = False) -> int:
        """Opens CPU access; what that took, in ns. Raises NativeError.

        DMA_BUF_IOCTL_SYNC with START on a dma-buf; on other memory it is nothing and takes 0.
        """
        return self.sync(end=False, read=True, write=write)

    def end(self, *, write: bool = False) -> int:
        """Closes what `begin` opened with the same `write`; what that took, in ns. Raises NativeError."""
        return self.sync(end=True, read=True, write=write)

    def sync(self, *, end: bool, read: bool, write: bool) -> int:
        """One DMA_BUF_IOCTL_SYNC by its direction, in ns; nothing and 0 on other memory. Raises NativeError."""
        if not self.dmabuf:
            return 0
        flags = (lib.ZC_SYNC_END if end else 0) | (lib.ZC_SYNC_READ if read else 0)
        return check(lib.zc_timed_sync(self.fd, flags | (lib.ZC_SYNC_WRITE if write else 0)))

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
        self._mapping = None

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
