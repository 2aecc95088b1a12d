"""`.ci/aarch64_verdict.py` must be able to fail: a lane that cannot proves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

VERDICT = Path(__file__).parents[2] / ".ci" / "aarch64_verdict.py"
SOUND = {
    "10 - neon-nt: lengths": "",
    "6 - nt/neon: lengths": "",
    "a hugetlb mapping that is no multiple of 2 MiB": "skipped",
}
PYTHON = {"test_every_byte": ""}


def report(path: Path, tests: dict[str, str]) -> str:
    cases = "".join(
        f'<testcase name="{name}">{f"<{tag}/>" if tag else ""}</testcase>' for name, tag in tests.items()
    )
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return str(path)


@pytest.mark.parametrize(
    ("c", "python", "fault"),
    [
        (SOUND, PYTHON, ""),
        ({**SOUND, "10 - neon-nt: lengths": "skipped"}, PYTHON, "skipped: 10 - neon-nt: lengths"),
        ({**SOUND, "6 - nt/neon: lengths": "failure"}, PYTHON, "failed: 6 - nt/neon: lengths"),
        ({name: tag for name, tag in SOUND.items() if "nt/neon" not in name}, PYTHON, "no test of nt/neon: "),
        (SOUND, {"test_every_byte": "skipped"}, "skipped: test_every_byte"),
        (SOUND, {"test_every_byte": "error"}, "failed: test_every_byte"),
        (SOUND, {}, "no Python test passed"),
        ({}, PYTHON, "no C test passed"),
    ],
)
def test_what_fails_the_lane(c: dict[str, str], python: dict[str, str], fault: str, tmp_path: Path) -> None:
    reports = [report(tmp_path / "c.xml", c), report(tmp_path / "python.xml", python)]
    result = subprocess.run([sys.executable, VERDICT, *reports], capture_output=True, text=True, check=False)
    assert result.returncode == (1 if fault else 0)
    assert fault in result.stdout.splitlines() or not fault
