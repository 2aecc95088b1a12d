"""A log as it comes, piece by piece: what was understood of it, and what was not."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from zcopy.ingest.collect import Collector
from zcopy.ingest.lines import MOST_LINE, Splitter
from zcopy.ingest.parse import DoubtError, clean, parse
from zcopy.model import Json

_TOO_LONG: Final = f"a line of more than {MOST_LINE >> 20} MiB, or a part of one"


class Turn(Enum):
    """What happens to a log beside growing."""

    IDLE = auto()  # nothing new now
    ROTATED = auto()  # another file has its name: the old one is at its end
    TRUNCATED = auto()  # it was cut, and begins anew
    INSIDE = auto()  # reading begins in the middle of a line


@dataclass(slots=True)
class Tally:
    """What was read. `doubtful` and `too_long` are among those not understood."""

    bytes: int = 0
    lines: int = 0
    understood: int = 0
    doubtful: int = 0
    too_long: int = 0
    rotated: int = 0
    truncated: int = 0

    @property
    def not_understood(self) -> int:
        return self.lines - self.understood

    def document(self) -> dict[str, Json]:
        return {
            "bytes": self.bytes, "lines": self.lines, "understood": self.understood,
            "not_understood": self.not_understood, "doubtful": self.doubtful, "too_long": self.too_long,
            "rotated": self.rotated, "truncated": self.truncated,
        }  # fmt: skip


class Reading:
    """Grows by `take`. `unread` is told each line that is not understood: its number, its text, and where it has a
    known form why it is not taken."""

    def __init__(
        self, by: Container[str] = (), unread: Callable[[int, str, str], None] | None = None
    ) -> None:
        self._by = by
        self._unread = unread
        self._splitter = Splitter()
        self.collector = Collector()
        self.tally = Tally()

    def take(self, piece: bytes | Turn) -> None:
        """The next bytes, or what has happened."""
        if isinstance(piece, bytes):
            self.tally.bytes += len(piece)
            self._lines(self._splitter.feed(piece))
        elif piece is Turn.ROTATED:
            self.tally.rotated += 1
            self.end()
        elif piece is Turn.TRUNCATED:
            self.tally.truncated += 1
            self._lines(self._splitter.drop())
        elif piece is Turn.INSIDE:
            self._splitter.lose()

    def end(self) -> None:
        """The log has ended; a last line without an end is one."""
        self._lines(self._splitter.end())

    def _lines(self, lines: list[bytes | None]) -> None:
        for line in lines:
            if line is not None:
                self._line(line)
            else:
                self.tally.lines += 1
                self.tally.too_long += 1
                self._tell(b"", _TOO_LONG)

    def _line(self, line: bytes) -> None:
        """Counted when it has been read: a signal may come meanwhile, and then it is neither understood nor not."""
        try:
            records = parse(line, self._by)
        except DoubtError as doubt:
            self.tally.lines += 1
            self.tally.doubtful += 1
            self._tell(line, str(doubt))
            return
        for record in records:
            self.collector.add(record, self.tally.lines + 1)
        self.tally.lines += 1
        if records:
            self.tally.understood += 1
        else:
            self._tell(line, "")

    def _tell(self, line: bytes, why: str) -> None:
        if self._unread is not None:
            self._unread(self.tally.lines, clean(line), why)
