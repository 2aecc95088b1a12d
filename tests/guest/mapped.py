"""Runs inside a guest: maps a buffer of each kind and stays on the CPU, for whoever looks at the page tables.

    python mapped.py FOLDER

Each kind is a line ``KIND DECLARED ADDRESS SIZE``; the process then spins until FOLDER/KIND is there: attributes.py.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

from zcopy.buffers import registry
from zcopy.host import Host

SIZE = 1 << 20
PAGE = 4096
KINDS = re.compile(
    r"memfd|udmabuf|(dma-heap|drm):.+"
)  # in 4 KiB pages: an entry of 2 MiB has its PAT bit elsewhere


def spin(until: Path) -> None:
    """Keeps this process's page tables in the CPU; looks up only now and then, since that is a call to the host."""
    while not until.exists():
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass


def main(folder: Path) -> None:
    os.sched_setaffinity(0, {0})
    host = Host.read()
    for kind in registry.kinds(host):
        if not KINDS.fullmatch(kind.name) or kind.unavailable(host):
            continue
        with kind.allocate(SIZE, "mapped") as region:
            region.view()[::PAGE] = b"x" * (region.size // PAGE)
            print(kind.name, kind.declared(host) or "unknown", f"{region.address:x}", region.size, flush=True)
            spin(folder / kind.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
