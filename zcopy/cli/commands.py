"""The list of commands, as data: help and completion read it without importing any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcopy.errors import UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: what the user types, the module that has it, and its line in `zcopy --help`."""

    name: str
    module: str
    summary: str


COMMANDS: Final = (
    Entry("handoff", "zcopy.cli.handoff", "What handing a prefill's KV cache to another process costs."),
    Entry("fill", "zcopy.cli.fill", "How fast each kind of buffer can be filled, and what the sync costs."),
    Entry("inspect", "zcopy.cli.inspect", "What is in a llama.cpp sequence-state file, and is it whole?"),
    Entry("ingest", "zcopy.cli.ingest", "Read engine logs into the history."),
    Entry("history", "zcopy.cli.history", "List and show saved runs."),
    Entry(
        "doctor", "zcopy.cli.doctor", "What this box has: buffer kinds and why not, drivers, locks, store."
    ),
    Entry("config", "zcopy.cli.config", "Show, locate and set configuration."),
)


class NeedsCommand(UsageError):
    """A group was called without a command; `help` is what it could have been called with."""

    def __init__(self, path: str, help: str) -> None:
        super().__init__(f"'{path}' needs a command")
        self.help = help
