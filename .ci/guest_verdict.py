"""Whether the kernel guests' tests count as passed: DIR/SERIES/junit.xml of every kernel, one line for each.

    python3 .ci/guest_verdict.py DIR SERIES...

A kernel fails without a report, with a failed test, without one that was executed, with one that another kernel has
and it has not, and with a skipped one that is not in ALLOWED. Exit code 1 when one of them fails.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

# Tests that may skip on a kernel, by name: what that kernel does not have. Nothing at present.
ALLOWED: dict[str, frozenset[str]] = {"6.12": frozenset(), "7.3": frozenset()}


@dataclass
class Report:
    """The tests of one kernel by name."""

    tests: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)


def read(path: Path) -> Report:
    """Raises OSError and ElementTree.ParseError where the guest has left no whole report."""
    report = Report()
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        report.tests.add(name)
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            report.failed.add(name)
        elif "skipped" in outcomes:
            report.skipped.add(name)
    return report


def faults(series: str, report: Report, everywhere: set[str]) -> list[str]:
    """What is wrong with a kernel's report, in words."""
    skipped = {name for name in report.skipped if name.rpartition("::")[2] not in ALLOWED.get(series, ())}
    found = [
        f"{what}: {', '.join(sorted(names))}"
        for what, names in (
            ("failed", report.failed),
            ("skipped", skipped),
            ("not run here but on another kernel", everywhere - report.tests),
        )
        if names
    ]
    if not report.tests - report.skipped - report.failed:
        found.append("no test passed")
    return found


def main(folder: Path, kernels: list[str]) -> int:
    reports: dict[str, Report] = {}
    broken: dict[str, str] = {}
    for series in kernels:
        try:
            reports[series] = read(folder / series / "junit.xml")
        except (OSError, ElementTree.ParseError) as error:
            broken[series] = f"no report: {error}"
    everywhere = set().union(*(report.tests for report in reports.values()))
    for series, report in reports.items():
        if wrong := faults(series, report, everywhere):
            broken[series] = "; ".join(wrong)
    for series in kernels:
        print(f"kernel {series}: {broken.get(series) or f'{len(reports[series].tests)} tests passed'}")
    return 1 if broken or not kernels else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
