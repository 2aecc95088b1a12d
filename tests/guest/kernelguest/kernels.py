"""The cache of unpacked kernels.

A folder named after the series is complete, because it is renamed into place
as the last step. Everything else is done under one lock, so that two runs at
once download once.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import choose, tools
from .errors import GuestError
from .mirror import Apt, find_mirror


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: `tree` looks like the root that dpkg would fill."""

    series: str
    folder: Path

    @property
    def kver(self) -> str:
        return (self.folder / "kver").read_text().strip()

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def modules(self) -> Path:
        return self.tree / "usr/lib/modules" / self.kver

    @property
    def image(self) -> Path:
        # Up to 7.0 the package puts it in /boot, from 7.1 beside the modules.
        places = (self.tree / f"boot/vmlinuz-{self.kver}", self.modules / "vmlinuz")
        return next(place for place in places if place.exists())


def cache_folder() -> Path:
    given = os.environ.get("ZCOPY_GUEST_CACHE")
    return Path(given) if given else Path.home() / ".cache/zcopy-guest"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kernel(series: str) -> Kernel:
    """The kernel of this series, fetched on the first call."""
    cache = cache_folder().resolve()
    done = Kernel(series, cache / series)
    if not done.folder.exists():
        with locked(cache):
            # Another run may have fetched it while this one waited.
            if not done.folder.exists():
                fetch(series, cache)
    return done


def fetch(series: str, cache: Path) -> None:
    """Download and unpack into a partial folder, then rename it."""
    partial = cache / f"{series}.partial"
    # Left by a run that was killed: the lock says that nobody writes it now.
    shutil.rmtree(partial, ignore_errors=True)
    apt = Apt(partial / "apt")
    apt.update(find_mirror())
    kver = choose.newest(series, apt.names(f"linux-image-{series}."))
    wanted = choose.packages(kver, apt.depends)
    for deb in apt.download(wanted, partial / "debs"):
        tools.run("dpkg-deb", "-x", str(deb), str(partial / "tree"))
    finish(partial, kver)
    partial.rename(cache / series)


def finish(partial: Path, kver: str) -> None:
    """Make the tree one that depmod and modprobe accept; drop what is not it."""
    (partial / "tree/lib").symlink_to("usr/lib")
    tools.run("depmod", "-b", str(partial / "tree"), kver)
    (partial / "kver").write_text(f"{kver}\n")
    for leftover in ("apt", "debs"):
        shutil.rmtree(partial / leftover)
    # The rename must not reach the disk before the files do.
    os.sync()


def module_name(path: str) -> str:
    """modprobe's name of a module file: no folder, no suffix, no dashes."""
    return Path(path).name.split(".")[0].replace("-", "_")


def known_modules(this: Kernel) -> set[str]:
    """Names of all modules of this kernel, the built-in ones included."""
    names = set()
    for listing in ("modules.dep", "modules.builtin"):
        for line in (this.modules / listing).read_text().splitlines():
            names.add(module_name(line.split(":")[0]))
    return names


def resolve(this: Kernel, module: str) -> str:
    """The first of "new-name|old-name args" that this kernel has, with the args."""
    names, _, args = module.strip().partition(" ")
    known = known_modules(this)
    for name in names.split("|"):
        if module_name(name) in known:
            return f"{name} {args}".strip()
    raise GuestError(f"kernel {this.kver} has no module {names}")
