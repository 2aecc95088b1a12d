"""One case of a log: its samples, and what else its lines say."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, TypeVar

from zcopy.ingest.record import Record
from zcopy.ingest.samples import Series, Span
from zcopy.model import Json, Row

MOST_NAMES: Final = 256  # phases, further numbers and fields of a case, each
MOST_VALUES: Final = 16  # different values of a field

K = TypeVar("K", bound=Hashable)


class Group:
    """Grows by `add`. Where sizes differ its row has the largest, with the range beside it."""

    def __init__(self, record: Record) -> None:
        self._engine = record.engine
        self._case = dict(record.case)
        self._lines = Span()
        self._records = 0
        self._phases: dict[str, Series] = {}
        self._others: dict[tuple[str, str], Series] = {}
        self._fields: dict[str, dict[str, None]] = {}
        self._sizes = Span()
        self._copied: dict[str, Span] = {}
        self._left_out = 0

    def add(self, record: Record, line: int) -> int:
        """How many samples are kept more than before. `line`: the record's."""
        self._lines.add(line)
        self._records += 1
        kept = 0
        for phase, ns in record.ns.items():
            kept += self._note(self._phases, phase, ns, whole=True)
            if record.copied is not None:
                self._copied.setdefault(phase, Span()).add(record.copied)
        for name, other in record.others.items():
            kept += self._note(self._others, (name, other.unit), other.value, whole=False)
        for name, value in record.fields.items():
            self._keep(name, value)
        if record.bytes is not None:
            self._sizes.add(record.bytes)
        return kept

    def lengths(self) -> Iterator[int]:
        """Samples of each series."""
        return (len(series.kept) for series in self._all())

    def thin(self, above: int) -> None:
        """Halve every series of more samples."""
        for series in self._all():
            if len(series.kept) > above:
                series.thin()

    def order(self) -> tuple[str, tuple[str, ...], tuple[int | float, ...]]:
        """Sorts by engine, then by words, then by numbers."""
        values = self._case.values()
        numbers = tuple(value for value in values if isinstance(value, int | float))
        return self._engine, tuple(value for value in values if isinstance(value, str)), numbers

    def row(self, stated: Mapping[str, Json]) -> Row:
        """`stated`: what a case has beside what the log says. Nothing of a log is verified."""
        sized = self._sizes.most is not None and not self._sizes.differs
        return Row(
            case={**stated, **self._case},
            bytes=self._sizes.most or 0,
            bytes_copied=sum(span.most or 0 for span in self._copied.values()),
            ns={phase: tuple(map(int, series.kept)) for phase, series in self._phases.items()},
            rate_phase=list(self._phases)[-1] if sized else None,
            rate_of="bytes",
            extra=dict(self._extra()),
        )

    def _extra(self) -> Iterator[tuple[str, Json]]:
        yield "source", "log"
        yield "engine", self._engine
        yield "lines", {"count": self._records, "first": self._lines.least, "last": self._lines.most}
        sizes = (("bytes", self._sizes.most is not None), ("bytes_copied", bool(self._copied)))
        yield "not_in_log", [name for name, said in sizes if not said]
        if self._sizes.differs:
            yield "bytes_range", self._sizes.range()
        if self._copied:
            yield "phase_bytes", {phase: span.most for phase, span in self._copied.items()}
        if any(span.differs for span in self._copied.values()):
            yield "phase_bytes_range", {phase: span.range() for phase, span in self._copied.items()}
        yield from self._per_cell()
        if self._others:
            yield "numbers", [_summary(name, unit, series) for (name, unit), series in self._others.items()]
        if self._fields:
            yield "fields", {name: list(values) for name, values in self._fields.items()}
        thinned = {phase: series for phase, series in self._phases.items() if series.every > 1}
        if thinned:
            told = {phase: {"seen": each.seen, "every": each.every} for phase, each in thinned.items()}
            yield "thinned", told
        if self._left_out:
            yield "left_out", self._left_out
        yield "key", {"source": "log", "engine": self._engine}

    def _per_cell(self) -> Iterator[tuple[str, Json]]:
        adopted, cells = self._phases.get("adopt"), self._case.get("cells")
        if adopted and isinstance(cells, int) and cells:
            yield "ns_per_cell", round(_middle(adopted) / cells, 3)

    def _all(self) -> Iterator[Series]:
        yield from self._phases.values()
        yield from self._others.values()

    def _note(self, among: dict[K, Series], name: K, value: int | float, *, whole: bool) -> int:
        series = among.get(name)
        if series is None:
            if len(among) >= MOST_NAMES:
                self._left_out += 1
                return 0
            series = among[name] = Series(whole)
        return series.add(value)

    def _keep(self, name: str, value: str) -> None:
        values = self._fields.get(name, {})
        if value in values:
            return
        if len(values) >= MOST_VALUES or (not values and len(self._fields) >= MOST_NAMES):
            self._left_out += 1
        else:
            self._fields.setdefault(name, values)[value] = None


def _middle(series: Series) -> float:
    """The median as rows have it: of an even number the mean of the middle two."""
    ordered = sorted(series.kept)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _summary(name: str, unit: str, series: Series) -> dict[str, Json]:
    figures = {"median": _middle(series), "min": min(series.kept), "max": max(series.kept)}
    whole = {key: int(value) if value == int(value) else value for key, value in figures.items()}
    return {"name": name, "unit": unit, "n": series.seen, **whole}
