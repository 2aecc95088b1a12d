"""Limits of the process (ulimit): met, they are named; what they stop is no fault of the kind of memory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.buffers.memfd import Memfd
from zcopy.host import Host
from zcopy.model import Outcome, Warning_
from zcopy.native.calls import ExhaustedError, refused
from zcopy.native.region import Region
from zcopy.probes.base import Context
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.probes.handoff.probe import HandoffProbe

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

    def run(limits: str, *words: str, stdout: Path | None = None) -> subprocess.CompletedProcess[str]:
        with_stdout = f" > {stdout}" if stdout else ""
        own = {
            "ZCOPY_CONFIG": str(tmp_path / "config.toml"),
            "ZCOPY_DB": str(tmp_path / "h.db"),
            "ZCOPY_LOCK_DIR": str(tmp_path / "locks"),
        }
        script = f'{limits} && exec "$@"{with_stdout}'
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


@pytest.mark.parametrize("number", range(5, 9))
@pytest.mark.parametrize("words", [("doctor",), ("history", "list"), TINY], ids=lambda words: words[0])
def test_no_number_of_descriptors_is_a_bug(number: int, words: tuple[str, ...], limited: Limited) -> None:
    done = limited(f"ulimit -n {number}", *words)
    said = done.stdout + done.stderr
    assert "unexpected" not in done.stderr
    assert done.returncode == 0 or (done.returncode == 1 and f"ulimit -n is {number}" in said), said
    assert "SQLITE_CANTOPEN)" not in said


def test_a_file_that_may_not_grow_is_told_with_the_limit(limited: Limited) -> None:
    done = limited("ulimit -f 20", *TINY)
    assert done.returncode == 69
    assert "memfd: 8 MiB: File too large (EFBIG, ulimit -f is 20 KiB)" in done.stdout
    assert "(SQLITE_IOERR_WRITE, ulimit -f is 20 KiB)" in done.stderr  # of the history


def test_a_history_that_may_not_grow_is_no_full_disk(limited: Limited) -> None:
    assert limited("true", *TINY).returncode == 0
    done = limited("ulimit -f 20", "history", "list")
    assert done.returncode == 0 or "its files may not grow so far" in done.stderr
    said = limited("ulimit -f 20", *TINY).stderr
    assert "its files may not grow so far (SQLITE_IOERR_SHMSIZE, ulimit -f is 20 KiB)" in said
    assert "disk is full" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("doctor", "-o", "o.txt"), "cannot write o.txt: File too large, ulimit -f is 1 KiB"),
        (("doctor",), "stdout cannot be written: File too large, ulimit -f is 1 KiB"),
        (("config", "set", "lock_dir", f"/{'a' * 2000}"), "File too large, ulimit -f is 1 KiB"),
    ],
)
def test_an_output_that_may_not_grow_names_the_limit(
    words: tuple[str, ...], said: str, limited: Limited, tmp_path: Path
) -> None:
    done = limited("ulimit -f 1", *words, stdout=tmp_path / "stdout")
    assert (done.returncode, done.stderr.splitlines()[-1].endswith(said)) == (74, True), done.stderr
    assert not (tmp_path / "o.txt").exists()


def test_memory_that_runs_out_at_the_start_is_told_with_the_limit(limited: Limited) -> None:
    """Somewhere below what loading zcopy takes, a library does not load any more."""
    ends = [limited(f"ulimit -v {mib << 10}", *TINY) for mib in (26, 30, 34)]
    assert all("unexpected" not in done.stderr for done in ends)
    assert any(done.returncode == 1 and "MiB" in done.stderr.splitlines()[-1] for done in ends)


def test_a_process_that_may_not_write_on_ends_with_the_limit(tmp_path: Path) -> None:
    script = "import resource\nfrom zcopy.native.process import Process\n"
    script += "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
    script += (
        "child = Process('child', ('sh', '-c', 'head -c 4096 /dev/zero > big || kill -XFSZ $$'), {}, ())\n"
    )
    script += "child.wait()\nprint(child.epitaph())"
    assert _python(script, tmp_path) == " (killed by SIGXFSZ, ulimit -f is 1 KiB)\n"


def test_a_process_that_cannot_be_made_names_the_limit(tmp_path: Path) -> None:
    """As another user, since root may have any number of them."""
    script = "import os, resource\nfrom zcopy.errors import MeasurementError\n"
    script += "from zcopy.native.process import Process\n"
    script += "if os.geteuid() == 0:\n    os.setgid(61234)\n    os.setuid(61234)\n"
    script += "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
    script += "try:\n    Process('the child', ('/bin/true',), {}, ())\n"
    script += "except MeasurementError as error:\n    print(error.message, error.hint, sep='|')"
    said = "cannot start the child /bin/true: Resource temporarily unavailable (EAGAIN)|ulimit -u is 0\n"
    assert _python(script, tmp_path) == said


def _python(script: str, folder: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True, timeout=30
    ).stdout


def test_running_out_of_descriptors_is_no_reason_against_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Memfd, _size: int, _label: str) -> Region:
        raise refused("memfd: 4 KiB", OSError(errno.EMFILE, "Too many open files"))

    monkeypatch.setattr(Memfd, "allocate", full)
    with pytest.raises(ExhaustedError, match=r"ulimit -n is \d+"):
        Memfd().unavailable(Host.read())


def test_rows_of_a_kind_that_could_not_be_tried_have_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_self: Memfd, _size: int, _label: str) -> Region:
        raise refused("memfd: 4 KiB", OSError(errno.EMFILE, "Too many open files"))

    monkeypatch.setattr(Memfd, "allocate", full)
    cache = Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"])
    asked = HandoffParams(cache, (Length(64, 64),), reps=1, state_dirs=(str(tmp_path),))
    warnings: list[Warning_] = []
    context = Context(Host.read(), time.monotonic_ns, lambda *_: None, warnings.append, dict(os.environ))
    rows = list(HandoffProbe(asked).measure(context))
    assert {row.outcome for row in rows if row.case["route"] == "shared"} == {Outcome.FAILED}
    assert {row.outcome for row in rows if row.case["route"] == "file"} == {Outcome.OK}
    assert "no-export" not in [warning.code for warning in warnings]
