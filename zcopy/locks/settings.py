"""What the locks are handed: configuration, the outer hold's token, and the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zcopy.units import is_on

SECOND_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Clock:
    """The two clocks: `monotonic_ns` for deadlines, `wall_ns` (since the epoch) for "held since"."""

    monotonic_ns: Callable[[], int]
    wall_ns: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders that are tried, in this order, when none is named."""

    system: Path = Path("/run/lock/zcopy")  # made by a tmpfiles.d line or by the administrator
    run_lock: Path = Path("/run/lock")  # only where every user may write to it
    fallback: Path = Path("/tmp/zcopy-locks")  # made here when it is missing


@dataclass(frozen=True, slots=True)
class LockSettings:
    """Where the locks are and inside whose hold this process runs.

    Attributes:
        lock_dir: ZCOPY_LOCK_DIR.
        config_dir: the folder named in the configuration.
        files: a site's own lock file per device name; never written to.
        aliases: other names of devices, e.g. ``{"gpu": "gpu0"}``.
        token: ZCOPY_HELD, what the outer hold handed down.
        folders: the folders tried without `lock_dir` and `config_dir`.
        notice_after_ns, notice_every_ns: when a wait is first spoken of, and how often after that.
    """

    lock_dir: Path | None = None
    config_dir: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    folders: Folders = Folders()
    notice_after_ns: int = 3 * SECOND_NS // 10
    notice_every_ns: int = 30 * SECOND_NS


def lock_disabled(value: str | None) -> bool:
    """Whether this value of ZCOPY_NO_LOCK turns locking off."""
    return value is not None and is_on(value)
