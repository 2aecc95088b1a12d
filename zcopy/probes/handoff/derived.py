"""What only the rows of one length together say: `vs_file` and `ns_per_cell`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zcopy.model import Outcome, Row


def finished(rows: Sequence[Row]) -> list[Row]:
    """The rows of a length, in their order, with those keys."""
    files = [row for row in rows if row.case["route"] == "file" and row.outcome is Outcome.OK]
    return [_derived(row, _base(row, files)) for row in rows]


def _base(row: Row, files: Sequence[Row]) -> Row | None:
    """The file row that a row is held against: into the same memory and in place, before any other; else the first."""

    def unlike(file: Row) -> tuple[bool, bool]:
        return file.case["buffer"] != row.case["buffer"], file.case["region"] != "reused"

    return min(files, key=unlike, default=None)


def _derived(row: Row, base: Row | None) -> Row:
    median = row.median_ns
    cells = row.case["cells"]
    extra = dict(row.extra)
    if "adopt" in median and isinstance(cells, int):
        extra["ns_per_cell"] = round(median["adopt"] / cells, 3)
    comparable = row.outcome is Outcome.OK and base is not None and median.get("total")
    extra["vs_file"] = round(base.median_ns["total"] / median["total"], 3) if comparable and base else None
    return replace(row, extra=extra)
