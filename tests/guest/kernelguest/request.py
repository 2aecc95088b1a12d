"""What the caller asks for: plain values, checked by the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# The order is the order of /dev/dri/card*. Alternatives: cirrus was renamed.
# udmabuf and the system heap are built in.
MODULES = ("vgem", "virtio-gpu", "bochs", "cirrus-qemu|cirrus", "qxl")


@dataclass(frozen=True)
class Share:
    """A folder of the host that the guest sees, live, at the same path."""

    folder: Path
    writable: bool = False


@dataclass(frozen=True)
class Request:
    """One run of one command. `out` is the host folder of its artefacts."""

    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    modules: Sequence[str] = MODULES
    shares: Sequence[Share] = ()
    out: Path | None = None
    monitor: Path | None = None
    memory: int = 2048
    cpus: int = 2
    timeout: float = 1800.0
    boot_deadline: float = 300.0
