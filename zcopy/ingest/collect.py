"""Records of one case become one row, with every sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zcopy.ingest.group import Group
from zcopy.ingest.record import Record
from zcopy.model import Json, Row, Scalar

MOST_CASES: Final = 10_000
MOST_SAMPLES: Final = 1_000_000


class Collector:
    """Rows that grow. Of more samples than `most_samples` the longest series are thinned, evenly over the log; what
    belongs to more cases than `most_cases` is counted and not kept."""

    def __init__(self, most_cases: int = MOST_CASES, most_samples: int = MOST_SAMPLES) -> None:
        self._most_cases, self._most_samples = most_cases, most_samples
        self._groups: dict[tuple[str, frozenset[tuple[str, Scalar]]], Group] = {}
        self._samples = 0
        self.thinned = False
        self.left_out = 0  # records

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, record: Record, line: int) -> None:
        """`line`: the number of the record's line."""
        key = (record.engine, frozenset(record.case.items()))
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= self._most_cases:
                self.left_out += 1
                return
            group = self._groups[key] = Group(record)
        self._samples += group.add(record, line)
        if self._samples > self._most_samples:
            self._thin()

    def rows(self, stated: Mapping[str, Json]) -> tuple[Row, ...]:
        """Ordered by what they are and then by size. `stated`: what a case has beside what the log says."""
        return tuple(group.row(stated) for group in sorted(self._groups.values(), key=Group.order))

    def _thin(self) -> None:
        """All that is longer than half the longest, so that what is freed is worth the walk."""
        self.thinned = True
        longest = max(length for group in self._groups.values() for length in group.lengths())
        for group in self._groups.values():
            group.thin(longest // 2)
        self._samples = sum(sum(group.lengths()) for group in self._groups.values())
