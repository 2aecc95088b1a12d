"""What the numbers of one length say to do: which way serves, and which one loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from zcopy.model import Outcome, Row, Warning_
from zcopy.probes.handoff.evidence import Io
from zcopy.units import duration_text

_SWITCH: Final = "ONEBIT_KV_SHARE"  # the reference engine's: any text in it turns the shared route on
_MEANT_AS_OFF: Final = frozenset(("0", "false", "no", "off"))


def misread_switch(environ: Mapping[str, str]) -> Warning_ | None:
    """The engine's switch is "set and not empty": whoever wrote 0 into it has turned the shared route on."""
    value = environ.get(_SWITCH, "")
    if value.lower() not in _MEANT_AS_OFF:
        return None
    return Warning_(
        "kv-share", f"{_SWITCH}={value} turns the engine's shared route on: unset it to turn it off"
    )


def uncounted(io: Io | None) -> Warning_ | None:
    """Where the kernel does not count, the claim of 0 bytes has one leg less; `io` is what it counts of ourselves."""
    if io is not None:
        return None
    return Warning_(
        "no-io-count",
        "/proc/PID/io cannot be read here: what went through system calls is not checked, 0 bytes copied rests on"
        " the mappings alone",
    )


def fewer(length: str, done: int, asked: int) -> Warning_:
    """The medians of this length stand on fewer samples than those of a run on another box."""
    return Warning_(
        "fewer-reps",
        f"{length}: {done} of {asked} rounds, a further one would take too long on this box (--reps {asked} takes it)",
    )


def advise(rows: Sequence[Row]) -> Iterator[Warning_]:
    """Warnings about ways that were measured to lose. The rows are those of one length."""
    ok = [row for row in rows if row.outcome is Outcome.OK]
    files = [row for row in ok if row.case["route"] == "file" and row.case["region"] == "reused"]
    for row in ok:
        if row.case["route"] != "shared" or row.case["region"] != "fresh" or not files:
            continue
        fastest = min(files, key=_total)
        if _total(row) > _total(fastest):
            text = (
                f"{row.case['cells']} cells: a fresh {row.case['buffer']} region for each request"
                f" ({duration_text(_total(row))}) loses to the state file ({duration_text(_total(fastest))}):"
                f" create the region once and reuse it{', or use huge pages' if _small_pages(row) else ''}"
            )
            yield Warning_("fresh-region-loses", text)


def _small_pages(row: Row) -> bool:
    """Whether the first write met the payload in pages of a few KiB: more than one fault per 64 KiB."""
    faults = row.extra.get("faults")
    return isinstance(faults, int) and faults * 65536 > row.bytes


def recommend(rows: Sequence[Row]) -> list[str]:
    """One sentence per length: the way that serves, and the cheapest first write this run has seen."""
    notes = []
    for cells in dict.fromkeys(row.case["cells"] for row in rows):
        ok = [row for row in rows if row.case["cells"] == cells and row.outcome is Outcome.OK]
        shared = [row for row in ok if row.case["route"] == "shared"]
        if not shared:
            continue
        best = min(shared, key=_total)
        notes.append(f"{cells} cells: {_serves(best, [row for row in ok if row.case['route'] == 'file'])}.")
        if first := _cheapest_first(shared):
            notes.append(first)
    return notes


def _serves(best: Row, files: Sequence[Row]) -> str:
    """The best shared way, or the state file where even that loses to it."""
    file = min(files, key=_total, default=None)
    if file is not None and _total(file) < _total(best):
        return f"the state file serves: {duration_text(_total(file))} a request; {_way(best)} costs more"
    return f"{_way(best)} serves: {duration_text(_total(best))} a request{_against(best)}"


def _against(best: Row) -> str:
    ratio = best.extra.get("vs_file")
    return f", {ratio:,.0f} times less than the state file" if isinstance(ratio, float) and ratio > 1 else ""


def _way(row: Row) -> str:
    populate = {"prefault": ", populated and pre-read", "map": ", populated"}.get(
        str(row.case["populate"]), ""
    )
    return f"a {row.case['region']} {row.case['buffer']} region{populate}"


def first_write_ns(row: Row) -> int | None:
    """What the first write into the region costs, pre-reading included; None where it was not measured."""
    median = row.median_ns
    return median["first_write"] + median.get("prefault", 0) if "first_write" in median else None


def _cheapest_first(rows: Sequence[Row]) -> str | None:
    """Which of the measured ways to meet a region's pages is the cheapest, against the dearest."""
    timed = sorted((ns, i) for i, row in enumerate(rows) if (ns := first_write_ns(row)) is not None)
    if len(timed) < 2 or timed[-1][0] < 2 * timed[0][0]:
        return None
    (least, i), (most, j) = timed[0], timed[-1]
    fast, slow = rows[i], rows[j]
    return (
        f"{fast.case['cells']} cells, first write: {duration_text(least)} with {fast.extra['faults']:,} page faults"
        f" ({_met(fast)}),"
        f" against {duration_text(most)} with {slow.extra['faults']:,} ({_met(slow)})."
    )


def _met(row: Row) -> str:
    """The way, and how often it was measured: a reused region meets its pages once, before the rounds."""
    count = len(row.ns["first_write"])
    return f"{_way(row)}; {'once' if count == 1 else f'median of {count}'}"


def _total(row: Row) -> int:
    return row.median_ns["total"]
