"""What this process is short of, behind an error of the system: a limit is named as ulimit(1) names it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from zcopy.units import size_text


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of this process: ulimit's option, the resource, and how its amount is written."""

    option: str
    resource: int
    text: Callable[[int], str] = str

    @property
    def amount(self) -> int | None:
        """The soft limit; None where there is none."""
        soft = resource.getrlimit(self.resource)[0]
        return None if soft == resource.RLIM_INFINITY else soft

    def __str__(self) -> str:
        amount = self.amount
        return f"ulimit {self.option} is {'unlimited' if amount is None else self.text(amount)}"


DESCRIPTORS: Final = Limit("-n", resource.RLIMIT_NOFILE)
FILE_SIZE: Final = Limit("-f", resource.RLIMIT_FSIZE, size_text)
PROCESSES: Final = Limit("-u", resource.RLIMIT_NPROC)
CPU_TIME: Final = Limit("-t", resource.RLIMIT_CPU, "{} s".format)
_MEMORY: Final = (
    Limit("-v", resource.RLIMIT_AS, size_text),
    Limit("-d", resource.RLIMIT_DATA, size_text),
)
_BEHIND: Final[Mapping[int, tuple[Limit, ...]]] = {
    errno.EMFILE: (DESCRIPTORS,),
    errno.EFBIG: (FILE_SIZE,),
    errno.ENOMEM: _MEMORY,
}
_SHORT: Final = frozenset((*_BEHIND, errno.ENFILE, errno.ENOSPC, errno.EDQUOT))


def behind(error: OSError) -> str | None:
    """``ulimit -n is 256``: the limit of this process that `error` can come from; None where there is none."""
    found = [str(limit) for limit in _BEHIND.get(error.errno or 0, ()) if limit.amount is not None]
    return ", ".join(found) or None


def reason(error: OSError) -> str:
    """The system's reason, with the limit behind it: ``File too large, ulimit -f is 20 KiB``."""
    return ", ".join(filter(None, (error.strerror or str(error), behind(error))))


def exhausted(error: OSError) -> bool:
    """Whether `error` is about descriptors that ran out, and so says nothing of what one was wanted for."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def shortage(error: Exception) -> str | None:
    """Words for an error that no one foresaw but that something short explains; None for any other, a bug."""
    if isinstance(error, MemoryError):
        return reason(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    if isinstance(error, OSError) and error.errno in _SHORT:
        return f"{error.filename}: {reason(error)}" if error.filename else reason(error)
    # dlopen(3) tells no errno: a library that is there and does not load where a limit is close.
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        limit = too_few_descriptors() or behind(OSError(errno.ENOMEM, ""))
        return f"{error}, {limit}" if limit else None
    return None


def too_few_descriptors(needed: int = 4) -> str | None:
    """`DESCRIPTORS` in words where this process cannot open `needed` more files, which is tried."""
    held: list[int] = []
    try:
        while len(held) < needed:
            held.append(os.open("/", os.O_PATH | os.O_CLOEXEC))
    except OSError as error:
        return behind(error)
    finally:
        for fd in held:
            os.close(fd)
    return None
