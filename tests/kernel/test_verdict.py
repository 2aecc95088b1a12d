"""What the guest lane takes for a pass. Needs no guest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

VERDICT = Path(__file__).parents[2] / ".ci/guest_verdict.py"
PASSED = '<testcase classname="t" name="passed"/>'
SKIPPED = '<testcase classname="t" name="gone"><skipped message="not here"/></testcase>'
FAILED = '<testcase classname="t" name="bad"><failure message="no"/></testcase>'
BROKEN = '<testcase classname="t" name="bad"><error message="at teardown"/></testcase>'


def verdict(folder: Path, **reports: str) -> tuple[int, str]:
    for series, cases in reports.items():
        (folder / series).mkdir()
        (folder / series / "junit.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    call = [sys.executable, str(VERDICT), str(folder), "one", "two"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_all_passed(tmp_path: Path) -> None:
    said = "kernel one: 1 tests passed\nkernel two: 1 tests passed\n"
    assert verdict(tmp_path, one=PASSED, two=PASSED) == (0, said)


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        (PASSED + FAILED, "failed: t::bad"),
        (PASSED + BROKEN, "failed: t::bad"),
        (PASSED + SKIPPED, "skipped: t::gone"),
        ("", "not run here but on another kernel: t::passed; no test passed"),
        ("<testcase", "no report: "),
    ],
)
def test_one_kernel_has_not(tmp_path: Path, cases: str, said: str) -> None:
    code, stdout = verdict(tmp_path, one=PASSED, two=cases)
    assert code == 1
    assert f"kernel two: {said}" in stdout


def test_a_guest_that_did_not_run(tmp_path: Path) -> None:
    code, stdout = verdict(tmp_path, one=PASSED)
    assert code == 1
    assert "kernel two: no report: " in stdout


def test_nothing_ran_anywhere(tmp_path: Path) -> None:
    code, stdout = verdict(tmp_path, one="", two="")
    assert (code, stdout) == (1, "kernel one: no test passed\nkernel two: no test passed\n")
