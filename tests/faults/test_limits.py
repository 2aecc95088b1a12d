"""Limits of the process (ulimit): met, they are named; what they stop is no fault of the kind of memory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.buffers.memfd import Memfd
from zcopy.host import Host
from zcopy.native.calls import ExhaustedError, refused
from zcopy.native.region import Region

TINY = (
    "handoff",
    "--model",
    "tiny",
    "--cells",
    "64",
    "--reps",
    "1",
    "--region",
    "reused",
    "--format",
    "table",
)
Limited = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def limited(tmp_path: Path) -> Limited:
    """zcopy in a shell with these limits."""

    def run(limits: str, *words: str) -> subprocess.CompletedProcess[str]:
        own = {"ZCOPY_DB": str(tmp_path / "h.db"), "ZCOPY_LOCK_DIR": str(tmp_path / "locks")}
        script = f'{limits} && exec "$@"'
        command = ("bash", "-c", script, "bash", sys.executable, "-m", "zcopy", *words)
        return subprocess.run(
            command,
            env={**os.environ, **own},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.mark.parametrize("number", [6, 8, 10])
def test_few_descriptors_are_a_failure_that_names_the_limit(number: int, limited: Limited) -> None:
    done = limited(f"ulimit -n {number}", *TINY)
    assert done.returncode == 1
    assert f"Too many open files (EMFILE, ulimit -n is {number})" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "no kind of memory" not in done.stderr


def test_a_file_that_may_not_grow_is_told_with_the_limit(limited: Limited) -> None:
    done = limited("ulimit -f 20", *TINY)
    assert done.returncode == 69
    assert "memfd: 8 MiB: File too large (EFBIG, ulimit -f is 20 KiB)" in done.stdout
    assert "; ulimit -f is 20 KiB)" in done.stderr  # of the history


def test_running_out_of_descriptors_is_no_reason_against_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Memfd, _size: int, _label: str) -> Region:
        raise refused("memfd: 4 KiB", OSError(errno.EMFILE, "Too many open files"))

    monkeypatch.setattr(Memfd, "allocate", full)
    with pytest.raises(ExhaustedError, match=r"ulimit -n is \d+"):
        Memfd().unavailable(Host.read())
