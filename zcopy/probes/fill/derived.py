"""What a size's rows come to once they are all there: against the plain memcpy, and against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from zcopy.model import Json, Outcome, Row, Warning_
from zcopy.probes.fill.params import BASE_BUFFER, BASE_METHOD, LINE
from zcopy.units import duration_text, gbps, size_text

# A sweep over lines that are in no cache, the cheapest there is, was measured at 1 ns a line, and reported at 0.6 ns; a
# call that does no maintenance takes less than a microsecond whatever the size. In between it looks after every line.
_SWEEP_NS_PER_LINE: Final = 0.3
_CALL_NS: Final = 3_000
_NARROW: Final = 16  # times: a range so much smaller than the buffer must cost visibly less
_FALLS: Final = 0.5  # to this part of the whole buffer's cost, at least


def against_base(rows: Sequence[Row]) -> list[Row]:
    """The rows with `vs_memcpy`, `gbps_with_sync` and `sync_share`."""
    bases = {_work(row): row for row in rows if row.outcome is Outcome.OK and _is_base(row)}
    return [_derived(row, bases.get(_work(row))) for row in rows]


def _work(row: Row) -> tuple[object, ...]:
    return row.case.get("size"), row.bytes, row.case.get("threads")


def _is_base(row: Row) -> bool:
    """Not what was asked for beside it: the same by a flush, or into pages that were there."""
    case = (row.case["buffer"], row.case["method"], row.case["sync"], row.case.get("populate"))
    return case == (BASE_BUFFER, BASE_METHOD, "none", None)


def _derived(row: Row, against: Row | None) -> Row:
    if row.outcome is not Outcome.OK:
        return row
    median = row.median_ns
    total, sync = median["total"], median.get("sync", 0)
    comparable = against is not None and row.case["method"] != "memset" and total
    more: dict[str, Json] = {
        "gbps_with_sync": gbps(row.bytes, total),
        "sync_share": round(sync / total, 4) if total else None,
        "vs_memcpy": round(against.median_ns["total"] / total, 3) if comparable and against else None,
    }
    return replace(row, extra={**row.extra, **more})


def whole_buffer_flushes(rows: Sequence[Row]) -> Iterator[Warning_]:
    """Syncs that look after the whole buffer, however little of it was touched: once for each kind and policy."""
    told: set[tuple[object, ...]] = set()
    whole = {_way(row): row for row in rows if _synced(row) and "range" not in row.case}
    for row in sorted(
        (row for row in rows if _synced(row) and "range" in row.case), key=lambda row: row.bytes
    ):
        full = whole.get(_way(row))
        which = (row.case["buffer"], row.case["sync"], row.case["size"])
        if (
            full is not None
            and which not in told
            and is_whole(_sync(row), row.bytes, _sync(full), full.bytes)
        ):
            told.add(which)
            yield Warning_("whole-buffer-flush", _flush_text(row, full))


def _synced(row: Row) -> bool:
    return row.outcome is Outcome.OK and "sync" in row.ns


def _way(row: Row) -> tuple[object, ...]:
    return tuple(
        row.case.get(key) for key in ("buffer", "populate", "size", "method", "sync", "threads", "isa")
    )


def _sync(row: Row) -> int:
    return row.median_ns["sync"]


def is_whole(part_ns: int, part: int, whole_ns: int, size: int) -> bool:
    """Whether a sync of `part` bytes costs as a sweep over all `size` does. Pure, so that reports can be fed to it."""
    if part * _NARROW > size:
        return False
    sweeps = part_ns > _CALL_NS and part_ns > size / LINE * _SWEEP_NS_PER_LINE
    return sweeps and part_ns > whole_ns * _FALLS


def _flush_text(row: Row, full: Row) -> str:
    return (
        f"{row.case['buffer']}: sync {row.case['sync']} of {size_text(row.bytes)} takes {duration_text(_sync(row))},"
        f" of all {size_text(full.bytes)} {duration_text(_sync(full))}: the driver flushes the whole buffer each time"
    )
