"""Holds how each kind of buffer is mapped in a guest, by its page tables, against what zcopy declares of it.

    python tests/guest/attributes.py PYTHON SERIES...

An emulator times all mappings alike, and no call tells the attribute; but QEMU keeps the guest's page tables, and its
monitor shows them ("info tlb"). PYTHON has zcopy installed and runs mapped.py inside each guest. Exit code 1 where an
attribute is another than declared, a page has another one than its neighbours, or a guest showed too little.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PAGE = 4096
TRIES = 60
# The kernel's PAT on x86: "WB WC UC- UC WB WP UC- WT" (printed at boot). An entry's index is PAT, PCD, PWT.
PAT = (
    "cached",
    "write-combine",
    "uncached",
    "uncached",
    "cached",
    "write-protect",
    "uncached",
    "write-through",
)
# What the monitor prints of a page: address, where it is, then NX, global, PAT (as PSE), dirty, accessed, PCD, PWT, …
ENTRY = re.compile(r"^([0-9a-f]{16}): [0-9a-f]{16} ..(P|-)..(C|-)(T|-)..", re.MULTILINE)
PROMPT = b"(qemu) "


class Mapped(NamedTuple):
    """A buffer that the guest has mapped and touched."""

    kind: str
    declared: str
    address: int
    size: int


class Monitor:
    """QEMU's monitor on a socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._answer()

    def ask(self, command: str) -> str:
        self._socket.sendall(command.encode() + b"\n")
        return self._answer()

    def _answer(self) -> str:
        said = b""
        while not said.endswith(PROMPT):
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise ConnectionError("the monitor is gone")
            said += piece
        return said.decode("latin-1").replace("\r", "")


def attributes(tlb: str, buffer: Mapped) -> dict[int, str]:
    """The attribute of each page of a buffer that the monitor's text shows, by address."""
    found = {}
    for address, pat, pcd, pwt in ENTRY.findall(tlb):
        at = int(address, 16)
        if buffer.address <= at < buffer.address + buffer.size:
            found[at] = PAT[(pat != "-") << 2 | (pcd != "-") << 1 | (pwt != "-")]
    return found


def looked_at(monitor: Monitor, buffer: Mapped) -> dict[int, str]:
    """Asks until the guest's CPU has this process's page tables; empty where it never had."""
    monitor.ask("cpu 0")
    for _ in range(TRIES):
        if found := attributes(monitor.ask("info tlb"), buffer):
            return found
        time.sleep(0.1)
    return {}


def fault(buffer: Mapped, found: dict[int, str]) -> str | None:
    """Why a buffer does not hold what is declared of it."""
    if len(found) != buffer.size // PAGE:
        return f"{len(found)} of its {buffer.size // PAGE} pages are mapped"
    if len(kinds := set(found.values())) > 1:
        return f"its pages differ: {sorted(kinds)}"
    if buffer.declared != "unknown" and kinds != {buffer.declared}:
        return f"declared {buffer.declared}"
    return None


def buffers(guest: subprocess.Popen[str]) -> Iterator[Mapped]:
    assert guest.stdout is not None
    for line in guest.stdout:
        words = line.split()
        if len(words) == 4:
            yield Mapped(words[0], words[1], int(words[2], 16), int(words[3]))
        else:
            print(line, end="")


def check(python: str, series: str) -> bool:
    """Boots one kernel and looks at every buffer in it. Whether all is as declared, write-combine among it."""
    with tempfile.TemporaryDirectory() as folder:
        monitor = Path(folder, "monitor")
        given = ["--env", f"PYTHONPATH={tree}"] if (tree := os.environ.get("PYTHONPATH")) else []
        command = [
            sys.executable, str(HERE / "run.py"), "--kernel", series, "--monitor", str(monitor), "--timeout", "300",
            "--share", folder, "--cwd", "/", *given, "--", python, str(HERE / "mapped.py"), folder,
        ]  # fmt: skip
        seen: list[str] = []
        good = True
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as guest:
            for buffer in buffers(guest):
                found = looked_at(Monitor(monitor), buffer)
                wrong = fault(buffer, found)
                text = ", ".join(sorted(set(found.values()))) or "nothing"
                print(f"{series}: {buffer.kind}: {text}{f' ({wrong})' if wrong else ''}", flush=True)
                seen += set(found.values())
                good = good and wrong is None
                Path(folder, buffer.kind).touch()
        return good and guest.returncode == 0 and {"cached", "write-combine"} <= set(seen)


def main(words: list[str]) -> int:
    python, *kernels = words
    with ThreadPoolExecutor() as boots:
        results = list(boots.map(lambda series: check(python, series), kernels))
    print(f"attributes: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
