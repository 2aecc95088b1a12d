"""A probe: one question, asked as a list of cases, answered row by row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from zcopy.host import Host
from zcopy.model import Json, Row, Warning_


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do, for --plan: its cases, its peak of memory and of disk in bytes, and its duration in ns."""

    cases: tuple[Mapping[str, Json], ...]
    memory: int
    disk: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Context:
    """What a probe is handed: it reads neither argv, the environment nor the clock itself."""

    host: Host
    ticks: Callable[[], int]  # monotonic ns
    progress: Callable[[str, int, int], None]  # what is going on, steps done, steps in all
    warn: Callable[[Warning_], None]
    environ: Mapping[str, str] = field(default_factory=dict)


class Probe(ABC):
    """A measuring command's inside. `measure` yields each row as soon as it is complete.

    When a Stopped exception passes through `measure`, the probe first yields nothing more but leaves its finished
    samples in `partial()`, so that what was measured before an interruption is kept.
    """

    command: ClassVar[str]

    @abstractmethod
    def params(self) -> Mapping[str, Json]:
        """Everything that is needed to measure the same again, whatever the defaults become."""

    @abstractmethod
    def plan(self, host: Host) -> Plan: ...

    @abstractmethod
    def measure(self, context: Context) -> Generator[Row, None, None]: ...

    def devices(self, host: Host) -> tuple[str, ...]:
        """The locks of what the probe touches: at least the CPU."""
        return ("cpu",)

    def drivers(self, host: Host) -> Sequence[str]:
        """The kernel modules whose fingerprints decide whether two runs of this probe can be compared."""
        return ()

    def partial(self) -> Sequence[Row]:
        """Rows of the cases that were under way when the run was stopped, with the samples they have."""
        return ()

    def named(self) -> Sequence[tuple[str, str]]:
        """(case key, value) pairs that the user named himself: each must get an ok row."""
        return ()
