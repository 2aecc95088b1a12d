"""The prompt's sequence state as a file: no server is given one whose length is not known to be right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zcopy.engines.llama.slots import Moved
from zcopy.errors import MeasurementError, RefusedError
from zcopy.native.region import Region
from zcopy.native.rows import Layout
from zcopy.native.state import State

_PRESET: Final = "preset.bin"


@dataclass(frozen=True, slots=True)
class Saved:
    """A prompt's state in its file: bytes, the span of saving, and the server's own (None: our writer's)."""

    bytes: int
    ns: int
    server_ns: int | None


class PromptFile:
    """`path` in a folder that servers save to; `formula`: the bytes it must have, None where there is none for it."""

    def __init__(self, path: Path, formula: int | None) -> None:
        self.path = path
        self.bytes: int | None = None  # of what was saved last
        self._formula = formula

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def preset(self) -> str:
        """The name of the file with the same tokens and rows of zeros."""
        return _PRESET

    def saved(self, moved: Moved) -> Saved:
        """What a server has saved. Raises MeasurementError for a length that is not its own nor the formula's."""
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise RefusedError(
                f"{self.path}: {error.strerror}", "--state-dir must name the folder that the servers save to"
            ) from error
        expected = moved.bytes if self._formula is None else self._formula
        if not size == moved.bytes == expected:
            raise MeasurementError(
                f"the saved state has {size} bytes, the server says {moved.bytes}, expected are {expected}"
            )
        self.bytes = size
        return Saved(size, moved.ns, moved.server_ns)

    def check(self, name: str, size: int | None) -> None:
        """Whether a file of the folder still has its length: a server that is given a shorter one ends at once."""
        found = self.path.with_name(name).stat().st_size
        if size is not None and found != size:
            raise MeasurementError(f"{name} has {found} bytes, expected are {size}: no server is given it")

    def forge(self, state: State, source: Region, packed: Layout, ticks: Callable[[], int]) -> Saved:
        """Writes the file ourselves, in place where it is there."""
        started = ticks()
        with self.path.open("r+b" if self.path.exists() else "w+b", buffering=0) as file:
            written = self.bytes = state.save(file.fileno(), source, packed)
        return Saved(written, ticks() - started, None)

    def write_preset(self, state: State, packed: Layout) -> None:
        """The same tokens with rows of zeros: holes, so that it takes no room."""
        with self.path.with_name(_PRESET).open("wb") as file:
            state.save(file.fileno(), None, packed)
