"""What a kind of memory is to the rest of zcopy: a name, what it can do, why it is not here, and `allocate`.

A difference between kinds is a method or a declared capability of the kind, never an `if kind == …` elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from zcopy.host import Host
    from zcopy.native.region import Region


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a probe may expect of a kind of memory."""

    exportable: bool  # has an fd that another process can map
    dmabuf: bool = False  # the fd is a dma-buf: CPU access is bracketed by DMA_BUF_IOCTL_SYNC
    sealable: bool = False  # the fd can be sealed against shrinking, and the importer can check it
    sparse: bool = False  # untouched pages are holes that SEEK_DATA/SEEK_HOLE tell apart
    populates: bool = False  # pages come with the first touch, so populating in advance changes it


class Buffer(ABC):
    """A kind of memory. `name` is what `--buffer` takes and what every row carries."""

    name: str
    summary: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    @abstractmethod
    def unavailable(self, host: Host) -> str | None:
        """Why this box does not offer the kind, in one sentence with what would help; None when it does.

        Found by trying a throw-away buffer of one page (or the kind's smallest), never from a version number.
        """

    def limit(self, host: Host) -> tuple[int, str] | None:
        """The largest size in bytes the kind itself allows here and the name of that limit, or None."""
        return None

    @abstractmethod
    def allocate(self, size: int, label: str) -> Region:
        """A new zeroed region of `size` bytes (rounded up to the kind's page), mapped by us as its exporter.

        Raises RefusedError with the system's reason. `label` names it in /proc for whoever looks.
        """
