"""What a kind of memory is to the rest of zcopy: a name, what it can do, why it is not here, and `allocate`.

A difference between kinds is a method or a declared capability of the kind, never an `if kind == …` elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from zcopy.model import Json

if TYPE_CHECKING:
    from zcopy.host import Host
    from zcopy.native.region import Region

PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a probe may expect of a kind of memory."""

    exportable: bool  # has an fd that another process can map
    dmabuf: bool = False  # the fd is a dma-buf: CPU access is bracketed by DMA_BUF_IOCTL_SYNC
    sparse: bool = False  # untouched pages are holes that SEEK_DATA/SEEK_HOLE tell apart
    populates: bool = False  # pages come with the first touch, so populating in advance changes it
    strict: bool = False  # Device memory on arm64: only aligned accesses of at most 16 bytes


class Buffer(ABC):
    """A kind of memory. `name` is what `--buffer` takes and what every row carries."""

    name: str
    summary: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    granule: int = PAGE  # bytes: sizes are rounded up to a multiple of it

    def unavailable(self, host: Host) -> str | None:
        """Why this box does not offer the kind, in one sentence with what would help; None when it does.

        Found by trying a throw-away buffer of the kind's smallest size, never from a version number. Raises
        ExhaustedError where this process could not try.
        """
        from zcopy.errors import ZcopyError
        from zcopy.native.calls import ExhaustedError

        if lack := self.missing(host):
            return lack
        try:
            with self.allocate(self.granule, "zcopy-try") as region:
                self.proof(region)
        except ExhaustedError:  # of this process: no reason of the kind's
            raise
        except ZcopyError as error:
            return f"{error.message} ({error.hint})" if error.hint else error.message
        return None

    def missing(self, host: Host) -> str | None:
        """Why trying is pointless (no device node, no permission, no pool), with what would help; else None."""
        return None

    def limit(self, host: Host) -> tuple[int, str] | None:
        """The largest size in bytes that the kind itself allows here, and the name of that limit; None: no own one."""
        return None

    def declared(self, host: Host) -> str | None:
        """How the driver maps it for the CPU: ``cached``, ``write-combine`` or ``uncached``; None where unknown.

        Known from the drivers' sources: no call tells user space, which is why `fill` measures it too.
        """
        return None

    def devices(self, host: Host) -> tuple[str, ...]:
        """The devices that measuring with this kind occupies beside the CPU, by the names of their locks (`gpu0`).

        None for memory behind which no GPU or NPU works, whichever driver hands it out.
        """
        return ()

    def drivers(self) -> tuple[str, ...]:
        """The kernel modules whose fingerprint belongs to the comparability of a run with this kind."""
        return ()

    @abstractmethod
    def allocate(self, size: int, label: str) -> Region:
        """A new zeroed region of at least `size` bytes, mapped by us as its exporter.

        Raises RefusedError with the system's reason, or ExhaustedError. `label` names it in /proc for whoever looks.
        """

    @abstractmethod
    def proof(self, region: Region) -> Mapping[str, Json]:
        """What the kernel says the region is: link name, seals, exporter, size.

        Raises MeasurementError where that contradicts the kind's name: no row is labelled by what was asked for.
        """

    def room(self, size: int) -> int:
        """`size` rounded up to the granule."""
        return -(-size // self.granule) * self.granule
