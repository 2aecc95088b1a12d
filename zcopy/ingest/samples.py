"""Numbers of one kind as they come, in bounded memory."""

from __future__ import annotations

from array import array


class Series:
    """Every `every`-th of the numbers that came, in their order; `seen` counts them all."""

    def __init__(self, whole: bool = True) -> None:
        self.kept: array[int] | array[float] = array("q") if whole else array("d")
        self.every = 1
        self.seen = 0

    def add(self, value: int | float) -> int:
        """How many more are kept: 1 or 0."""
        keep = self.seen % self.every == 0
        self.seen += 1
        if keep:
            self.kept.append(value)  # type: ignore[arg-type]
        return int(keep)

    def thin(self) -> None:
        """Keep every second of what is kept, and of what comes."""
        self.kept = self.kept[::2]
        self.every *= 2


class Span:
    """The least and the most of numbers; None where there were none."""

    def __init__(self) -> None:
        self.least: int | None = None
        self.most: int | None = None

    def add(self, value: int) -> None:
        self.least = value if self.least is None else min(self.least, value)
        self.most = value if self.most is None else max(self.most, value)

    @property
    def differs(self) -> bool:
        return self.least != self.most

    def range(self) -> list[int | None]:
        return [self.least, self.most]
