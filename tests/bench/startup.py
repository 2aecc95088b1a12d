"""What the tool itself costs: a whole short run, of that the interpreter and the imports, and a Tab.

python tests/bench/startup.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gates import Gate, disquiet, interleaved, spread, table, verdict

from zcopy.stats import median

BARE = [sys.executable, "-c", "pass"]
ZCOPY = [sys.executable, "-m", "zcopy"]
RUN = [*ZCOPY, "handoff", "--cells", "307", "--reps", "1", "--json"]
TAB = [*ZCOPY, "__complete", "buffers", ""]
SECOND = 1e9


def timed(command: list[str], environ: dict[str, str]) -> Callable[[], int]:
    def once() -> int:
        started = time.monotonic_ns()
        subprocess.run(command, env=environ, check=True, capture_output=True)
        return time.monotonic_ns() - started

    return once


def import_ns(environ: dict[str, str]) -> Callable[[], int]:
    """The sum of every module's own time in a whole run, the interpreter's start included."""
    command = [RUN[0], "-X", "importtime", *RUN[1:]]

    def once() -> int:
        told = subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stderr
        return sum(int(us) for us in re.findall(r"^import time:\s+(\d+) \|", told, re.MULTILINE)) * 1000

    return once


def works(command: list[str], environ: dict[str, str]) -> bool:
    return subprocess.run(command, env=environ, capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    disquiet()
    with tempfile.TemporaryDirectory() as folder:
        own = {"ZCOPY_DB": str(Path(folder, "history.db")), "ZCOPY_LOCK_DIR": str(Path(folder, "locks"))}
        environ = {**os.environ, **own}
        variants = {
            "a bare interpreter": timed(BARE, environ),
            "zcopy --version": timed([*ZCOPY, "--version"], environ),
            "zcopy --help": timed([*ZCOPY, "--help"], environ),
            "zcopy handoff --cells 307 --reps 1 --json": timed(RUN, environ),
            "  of that, imports": import_ns(environ),
        }
        if works(TAB, environ):
            variants["zcopy __complete"] = timed(TAB, environ)
        for each in variants.values():
            each()
        samples = interleaved(variants, options.rounds)
    mid = {name: median(found) for name, found in samples.items()}
    bare = mid["a bare interpreter"]
    table(
        ["wall", "median ms", "least", "most", "bare interpreters"],
        [[name, *spread(found, 1e6), f"{mid[name] / bare:.1f}"] for name, found in samples.items()],
    )
    python = bare + mid["  of that, imports"]
    gates = [
        Gate(
            "the whole run",
            mid["zcopy handoff --cells 307 --reps 1 --json"] / SECOND,
            2,
            at_most=True,
            unit=" s",
        ),
        Gate("interpreter and imports", python / SECOND, 0.4, at_most=True, unit=" s"),
    ]
    if "zcopy __complete" in mid:
        gates.append(
            Gate("completion over a bare interpreter", mid["zcopy __complete"] / bare, 2.5, at_most=True)
        )
    return verdict(gates)


if __name__ == "__main__":
    sys.exit(main())
