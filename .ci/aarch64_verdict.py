"""Whether the ARM tests count as passed, from the reports of meson's C tests and of pytest.

    python3 .ci/aarch64_verdict.py TESTLOG.junit.xml PYTEST.xml

Failed: a failed test, a skipped one that is not in ALLOWED, a kernel of NEON without a passed test, and a report
without any. Exit code 1 then.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

# Tests that may skip, by the words of their names: they need pages that a machine has to set aside.
ALLOWED = ("a hugetlb mapping that is no multiple of 2 MiB",)
# What this lane is for, as the C tests name it.
NEON = ("neon-nt: ", "nt/neon: ")


def outcome(case: ElementTree.Element) -> str:
    tags = {child.tag for child in case}
    return "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"


def read(path: Path) -> dict[str, list[str]]:
    """The names of a report's tests by what became of them."""
    found: dict[str, list[str]] = {"passed": [], "skipped": [], "failed": []}
    for case in ElementTree.parse(path).iter("testcase"):
        found[outcome(case)].append(case.get("name") or "")
    return found


def faults(c: dict[str, list[str]], python: dict[str, list[str]]) -> list[str]:
    """What is wrong with the two reports, in words."""
    wrong = [f"failed: {name}" for name in c["failed"] + python["failed"]]
    skipped = [name for name in c["skipped"] if not name.endswith(ALLOWED)] + python["skipped"]
    wrong += [f"skipped: {name}" for name in skipped]
    wrong += [f"no test of {words}" for words in NEON if not any(words in name for name in c["passed"])]
    wrong += [
        f"no {what} test passed" for what, report in (("C", c), ("Python", python)) if not report["passed"]
    ]
    return wrong


def main(c: Path, python: Path) -> int:
    reports = read(c), read(python)
    wrong = faults(*reports)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    counts = [
        f"{len(report['passed'])} {what} tests" for what, report in zip(("C", "Python"), reports, strict=True)
    ]
    print(f"{' and '.join(counts)} passed, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
