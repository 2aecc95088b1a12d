"""One line on a terminal that says what is going on, how fast, and how much is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from zcopy.cli.terminal import one_line
from zcopy.units import duration_text

_REDRAW_NS: Final = 100_000_000
_ERASE: Final = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Step:
    """Where the work stands: `done` of `total` steps (0: nobody knows) after `elapsed` nanoseconds."""

    text: str
    done: int
    total: int
    elapsed: int

    def line(self, columns: int) -> str:
        """``shared, 4105 cells  3/12  25 %  2.0/s  4.50 s left``, the text cut so that the figures fit."""
        figures = "".join(f"  {figure}" for figure in self._figures())
        room = max(0, columns - 1 - len(figures))
        return (one_line(self.text)[:room] + figures)[: columns - 1]

    def _figures(self) -> list[str]:
        if not self.total:
            return [f"{self.done}"] if self.done else []
        figures = [f"{self.done}/{self.total}", f"{100 * self.done // self.total} %"]
        if self.done and self.elapsed:
            left = self.elapsed * (self.total - self.done) // self.done
            figures += [f"{self.done * 1e9 / self.elapsed:.1f}/s", f"{duration_text(left)} left"]
        return figures


class Progress:
    """Draws steps over each other on `stream`, ten times a second at most. Without a stream it is silent."""

    def __init__(self, stream: TextIO | None, columns: int, ticks: Callable[[], int]) -> None:
        self._stream = stream
        self._columns = columns
        self._ticks = ticks
        self._began: int | None = None
        self._drawn = -_REDRAW_NS
        self._visible = False

    def __call__(self, text: str, done: int, total: int) -> None:
        """Say that `done` of `total` steps of `text` are done."""
        if self._stream is None:
            return
        now = self._ticks()
        if self._began is None or done == 0:
            self._began = now
        if now - self._drawn < _REDRAW_NS and done != total:
            return
        self._drawn = now
        self._stream.write(_ERASE + Step(text, done, total, now - self._began).line(self._columns))
        self._stream.flush()
        self._visible = True

    def clear(self) -> None:
        """Take the line away, before anything else is written to the terminal and at the end."""
        if self._visible and self._stream is not None:
            self._visible = False
            self._stream.write(_ERASE)
            self._stream.flush()
