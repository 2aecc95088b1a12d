"""What a command is handed: settings, streams, clock, configuration, and how to speak to the user.

Built once in main. Nothing else in zcopy reads argv, the environment or the clock.
"""

from __future__ import annotations

import locale
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from zcopy.cli import terminal
from zcopy.cli.progress import Progress
from zcopy.cli.streams import Streams, terminal_columns
from zcopy.render import Look
from zcopy.units import is_on

if TYPE_CHECKING:
    from random import Random

    import typer

    from zcopy.config import Config


@dataclass(frozen=True, slots=True)
class Settings:
    """The process as it was started. `argv` are the words after the program's name; `look` is stdout's."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path
    stdout_tty: bool
    stderr_tty: bool
    look: Look
    stderr_columns: int = 80
    debug: bool = False

    @staticmethod
    def of_process(streams: Streams) -> Settings:
        """Read argv, the environment and the streams of this process."""
        environ = MappingProxyType(dict(os.environ))
        stdout_tty = streams.stdout.isatty()
        codeset = locale.nl_langinfo(locale.CODESET)
        return Settings(
            argv=tuple(sys.argv[1:]),
            environ=environ,
            cwd=_folder(environ),
            stdout_tty=stdout_tty,
            stderr_tty=streams.stderr.isatty(),
            look=Look(
                colour=terminal.wants_colour(environ, stdout_tty),
                ascii=terminal.is_ascii(codeset, streams.stdout.encoding),
                width=terminal.width(environ, terminal_columns(1)),
            ),
            stderr_columns=terminal.width(environ, terminal_columns(2)) or 80,
            debug=is_on(environ.get("ZCOPY_DEBUG", "")),
        )


def _folder(environ: Mapping[str, str]) -> Path:
    """The working folder; where it was deleted under us, what it was called: only relative paths then fail."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(environ.get("PWD") or "/")


class AppContext:
    """Handed down from main to every command (`context.app(ctx)`)."""

    def __init__(self, settings: Settings, streams: Streams) -> None:
        self.settings = settings
        self.streams = streams
        draws = settings.stderr_tty and not terminal.is_dumb(settings.environ)
        self.progress = Progress(streams.stderr if draws else None, settings.stderr_columns, self.ticks)

    def now(self) -> datetime:
        """The time of day, UTC."""
        return datetime.now(UTC)

    def timestamp(self) -> str:
        """The time of day as runs carry it, ``YYYY-MM-DDTHH:MM:SSZ``."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def ticks(self) -> int:
        """Monotonic nanoseconds, for spans and deadlines."""
        return time.monotonic_ns()

    @cached_property
    def random(self) -> Random:
        """Randomness for nonces, ids and the order of rounds, seeded by the system."""
        from random import Random

        return Random()

    @property
    def environ(self) -> Mapping[str, str]:
        return self.settings.environ

    @property
    def home(self) -> Path:
        """The user's home folder (HOME, else the password database's)."""
        return Path(self.environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111

    @cached_property
    def config_path(self) -> Path:
        """ZCOPY_CONFIG, else config.toml in the platform's configuration folder."""
        if asked := self.environ.get("ZCOPY_CONFIG"):
            return self.settings.cwd / asked
        from platformdirs import user_config_path

        return user_config_path("zcopy") / "config.toml"

    @cached_property
    def config(self) -> Config:
        """The configuration, read at first use. Raises UsageError when the file is wrong."""
        from zcopy import config

        loaded = config.load(self.config_path, self.home)
        for name in loaded.unknown:
            self.warn(f"{self.config_path}: unknown key {name}, ignored")
        return loaded

    def db_path(self, option: Path | None = None) -> Path:
        """The history file: --db, ZCOPY_DB, history.db of the configuration, the platform's state folder."""
        if chosen := option or self.environ.get("ZCOPY_DB") or self.config.db:
            return self.settings.cwd / chosen
        from platformdirs import user_state_path

        return user_state_path("zcopy") / "history.db"

    def warn(self, text: str) -> None:
        """One line on stderr: what the reader of the results must know."""
        self.note(f"warning: {text}")

    def note(self, text: str) -> None:
        """One line on stderr: what is going on (waiting for a lock, written to a file)."""
        self.progress.clear()
        say(self.streams, f"zcopy: {terminal.one_line(text, self.settings.look.ascii)}")


def say(streams: Streams, line: str) -> None:
    """Write a line to stderr; a stderr that cannot be written is nobody's error."""
    try:
        streams.stderr.write(f"{line}\n")
        streams.stderr.flush()
    except OSError:
        pass


def app(ctx: typer.Context) -> AppContext:
    """The AppContext that main put into typer's context."""
    found = ctx.find_object(AppContext)
    if found is None:
        raise TypeError("this command was not started through zcopy.cli.main")
    return found
