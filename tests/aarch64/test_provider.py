"""A provider built for ARM, run by QEMU's user mode, and this machine's decoder: rows, files and faults across both.

Marked `aarch64` and run by `.ci/lanes/aarch64`, which cross-builds the provider and names its folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.aarch64

KERNELS = ("neon-nt", "base")
Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def provider() -> Path:
    """The cross-built provider; a run without one fails."""
    path = Path(os.environ["ZCOPY_AARCH64_BUILD"]) / "native" / "zcopy-provider"
    machine = path.read_bytes()[18:20]
    assert machine == (183).to_bytes(2, "little"), "EM_AARCH64 of elf.h"
    return path


@pytest.fixture
def handoff(provider: Path, tmp_path: Path) -> Rows:
    """`zcopy handoff` on 64 cells with that provider and the named kernel; its rows as JSON has them."""

    def run(kernel: str, *words: str, code: int = 0) -> list[dict[str, Any]]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ZCOPY_")}
        homes = {f"XDG_{home}_HOME": str(tmp_path / home) for home in ("STATE", "CACHE", "CONFIG")}
        command = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", str(provider), kernel]
        size = ["--model", "tiny", "--cells", "64", "--ctx", "256", "--reps", "3"]
        result = subprocess.run(
            [sys.executable, "-m", "zcopy", "handoff", "--json", *size, *words,
             "--state-dir", str(tmp_path / "states"), "--provider-cmd", shlex.join(command)],
            env={**environ, **homes, "HOME": str(tmp_path), "ZCOPY_LOCK_DIR": str(tmp_path / "locks")},
            cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert result.returncode == code, result.stdout + result.stderr
        rows: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
        return rows

    return run


def sound(rows: list[dict[str, Any]], kernel: str) -> None:
    assert [(row["outcome"], row["reason"], row["verified"]) for row in rows] == [("ok", None, True)] * len(
        rows
    )
    assert {row["key"]["writer"] for row in rows} == {f"zcopy-provider {kernel}"}


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_decoder_finds_every_byte_of_every_route(kernel: str, handoff: Rows) -> None:
    rows = handoff(kernel, "--route", "shared,file,copy,pipe")
    assert {row["case"]["route"] for row in rows} == {"shared", "file", "copy", "pipe"}
    sound(rows, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_scattered_cells_and_both_ways_of_passing_the_region(kernel: str, handoff: Rows) -> None:
    rows = handoff(kernel, "--route", "shared", "--scatter", "--pass", "scm,inherit")
    assert {row["case"]["pass"] for row in rows} == {"scm", "inherit"}
    sound(rows, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("fault", ["swap-kv", "stride", "run-long", "short", "no-write"])
def test_each_of_its_faults_is_seen(fault: str, kernel: str, handoff: Rows) -> None:
    """Without this the rows above could be verified by a decoder that looks at nothing."""
    rows = handoff(kernel, "--route", "shared", "--inject", fault, code=1)
    assert {row["case"]["region"] for row in rows} == {"reused", "fresh"}
    for row in rows:
        assert (row["outcome"], row["verified"]) == ("failed", False)
        assert re.match(r"(wrong row|overwritten): layer 0 K cell \d+ byte 0", row["reason"])


def test_without_a_name_it_takes_its_best(handoff: Rows) -> None:
    sound(handoff("", "--route", "shared"), "neon-nt")
