"""What `zcopy ingest` does around the reading: where the log comes from, saving as it grows, signals, exit code."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import zcopy
from zcopy import limits
from zcopy.cli.context import AppContext
from zcopy.errors import Exit, MeasurementError, Stopped, UsageError
from zcopy.ingest.collect import MOST_CASES, MOST_SAMPLES
from zcopy.ingest.follow import Follower, read_all
from zcopy.ingest.reading import Reading, Turn
from zcopy.model import Json, Run, Scalar, Status, Warning_, judge

if TYPE_CHECKING:
    from zcopy.history.recorder import Keeper

STDIN: Final = "-"
_PAUSE_NS: Final = 100_000_000  # between two looks at a log that is followed
_SAVE_NS: Final = 1_000_000_000  # at least, between two savings
_SAVE_SHARE: Final = 20  # saving takes at most one of so many parts of the time
_SHOWN: Final = 240  # characters of a line that was not understood


@dataclass(frozen=True, slots=True)
class Words:
    """The options as they were given; times in nanoseconds."""

    file: str
    follow: bool
    new: bool
    span_ns: int | None
    by: tuple[str, ...]
    stated: Mapping[str, Scalar]
    elsewhere: str | None
    label: str | None

    def check(self) -> None:
        """Raises UsageError for words that do not go together."""
        if not self.follow and (self.new or self.span_ns is not None):
            raise UsageError(f"{'--new' if self.new else '--for'} belongs to --follow")
        if self.follow and self.file == STDIN:
            raise UsageError("--follow needs the name of a file", "stdin is read as it comes anyway")

    def document(self, folder: Path) -> dict[str, Json]:
        return {
            "file": self.file if self.file == STDIN else str(folder / self.file),
            "follow": self.follow,
            "new": self.new,
            "for_ns": self.span_ns,
            "by": list(self.by),
            "case": dict(self.stated),
            "elsewhere": self.elsewhere,
            **({"label": self.label} if self.label else {}),
        }


@dataclass(frozen=True, slots=True)
class Log:
    """A log that is open: its pieces, its size if it has one, and whether it is there yet."""

    pieces: Iterator[bytes | Turn]
    size: Callable[[], int]
    there: Callable[[], bool]


@contextmanager
def opened(app: AppContext, words: Words) -> Iterator[Log]:
    """Raises UsageError for what cannot be read."""
    path = app.settings.cwd / words.file
    with ExitStack() as cleanup:
        try:
            if words.follow:
                follower = cleanup.enter_context(Follower(path, new=words.new))
                log = Log(follower.pieces(), lambda: follower.size, lambda: follower.there)
            else:
                file = None if words.file == STDIN else cleanup.enter_context(path.open("rb", buffering=0))
                log = _once(file.fileno() if file else 0)
        except OSError as error:
            raise UsageError(f"{words.file}: {limits.reason(error)}", "name a log, or - for stdin") from error
        yield log


def _once(fd: int) -> Log:
    facts = os.fstat(fd)
    if stat.S_ISREG(facts.st_mode):
        return Log(read_all(fd), lambda: facts.st_size, lambda: True)
    return Log(_as_it_comes(fd), lambda: 0, lambda: True)


def _readable(pieces: Iterator[bytes | Turn]) -> Iterator[bytes | Turn]:
    """Raises MeasurementError where the log fails, and lets every other OSError be what it is."""
    try:
        yield from pieces
    except OSError as error:
        raise MeasurementError(f"the log cannot be read on: {error.strerror}") from error


def _as_it_comes(fd: int) -> Iterator[bytes | Turn]:
    """A pipe or a terminal, IDLE whenever it is silent, so that what has come is saved meanwhile."""
    chunks = read_all(fd)
    while True:
        if not select.select([fd], [], [], _SAVE_NS / 1e9)[0]:
            yield Turn.IDLE
        elif chunk := next(chunks, None):
            yield chunk
        else:
            return


class Ingest:
    """One run of the command: reads the log, keeps what it says as it grows."""

    def __init__(self, app: AppContext, words: Words, keeper: Keeper, begun: Run, verbose: bool) -> None:
        self._app = app
        self._words = words
        self._keeper = keeper
        self._begun = begun
        self._reading = Reading(frozenset(words.by), self._unread if verbose else None)
        self._due = app.ticks() + _SAVE_NS
        self._saved_lines = 0
        self._told_waiting = False

    def run(self, log: Log) -> Run:
        """Reads to the end: the log's own, that of --for, or a signal. What was understood is kept in any case."""
        stopped, faults = self._until_end(log)
        try:
            return self._finish(stopped, faults)
        except Stopped:  # the log was at its end when the signal came
            return self._finish(stopped, faults)

    def _until_end(self, log: Log) -> tuple[Exit | None, tuple[Warning_, ...]]:
        """The exit of the signal that ended it, if one did, and what is wrong with the log."""
        try:
            self._begun = self._begun.with_(**facts(self._words.elsewhere))
            self._keeper.begin(self._begun)
            self._read(log)
        except Stopped as stop:
            return stop.exit, ()
        except MeasurementError as error:
            return None, (Warning_("log-unreadable", error.message),)
        return None, ()

    def _read(self, log: Log) -> None:
        span = self._words.span_ns
        until = None if span is None else self._app.ticks() + span
        for piece in _readable(log.pieces):
            self._reading.take(piece)
            self._progress(log)
            self._save()
            left = _PAUSE_NS if until is None else until - self._app.ticks()
            if left <= 0:
                return
            if piece is Turn.IDLE and self._words.follow:
                self._wait(log)
                time.sleep(min(left, _PAUSE_NS) / 1e9)
        self._reading.end()

    def _wait(self, log: Log) -> None:
        if not self._told_waiting and not log.there():
            self._app.note(f"{self._words.file} is not there yet: waiting for it")
            self._told_waiting = True

    def _progress(self, log: Log) -> None:
        tally = self._reading.tally
        if self._words.follow:
            self._app.progress(f"following {self._words.file}: lines understood", tally.understood, 0)
        else:
            self._app.progress(f"reading {self._words.file}, MiB", tally.bytes >> 20, log.size() >> 20)

    def _save(self) -> None:
        """Keeps the run as it is, now and then, so that a killed one loses a moment only."""
        now, lines = self._app.ticks(), self._reading.tally.lines
        if now < self._due or lines == self._saved_lines:
            return
        self._keeper.begin(self._now())
        self._saved_lines = lines
        ended = self._app.ticks()
        self._due = ended + max(_SAVE_NS, _SAVE_SHARE * (ended - now))

    def _now(self) -> Run:
        reading = self._reading
        return self._begun.with_(
            params={**self._begun.params, "log": reading.tally.document()},
            rows=reading.collector.rows(self._words.stated),
            warnings=(*self._begun.warnings, *warnings(reading)),
        )

    def _finish(self, stopped: Exit | None, faults: tuple[Warning_, ...]) -> Run:
        run = self._now()
        status, code = judge(run.rows, (), stopped)
        if faults:
            status, code = Status.FAILED, Exit.FAILED
        done = self._keeper.finish(
            run.with_(status=status, exit=int(code), warnings=(*run.warnings, *faults))
        )
        tally = self._reading.tally
        hidden = f", {tally.not_understood} not (-v shows them)" if tally.not_understood else ""
        self._app.note(f"{tally.lines} lines: {tally.understood} understood{hidden}; {len(run.rows)} cases")
        return done

    def _unread(self, number: int, text: str, why: str) -> None:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
        self._app.note(f"line {number}: {f'{why}: ' if why else ''}{shown}")


def warnings(reading: Reading) -> Iterator[Warning_]:
    """What the reader of the run must know of the log."""
    tally, collector = reading.tally, reading.collector
    if not tally.understood:
        what = (
            f"none of its {tally.lines} lines was understood (-v shows them)"
            if tally.lines
            else "it is empty"
        )
        yield Warning_("nothing-understood", f"the log has nothing for zcopy: {what}")
    if tally.doubtful:
        yield Warning_(
            "doubtful-lines", f"left out for saying what cannot be: {tally.doubtful} lines (-v shows them)"
        )
    if collector.thinned:
        yield Warning_(
            "samples-thinned",
            f"more than {MOST_SAMPLES} samples: of the longest phases every second one is left out, once or more",
        )
    if collector.left_out:
        yield Warning_(
            "cases-left-out", f"more than {MOST_CASES} cases: {collector.left_out} measurements are left out"
        )


def begin(app: AppContext, words: Words, run_id: str) -> Run:
    """The run before its first line, still without the facts of the box."""
    return Run(
        id=run_id,
        command="ingest",
        started=app.timestamp(),
        version=zcopy.__version__,
        argv=app.settings.argv,
        params=words.document(app.settings.cwd),
        key={"command": "ingest"},
        status=Status.INTERRUPTED,
        exit=int(Exit.INTERRUPTED),
    )


def facts(elsewhere: str | None) -> dict[str, Mapping[str, Json]]:
    """`host` and `key` of a run: those of this box as it is now, or only the name of the other one."""
    if elsewhere:
        return {"host": {"name": elsewhere}, "key": {"command": "ingest", "host": elsewhere}}
    from zcopy.host import Host

    here = Host.read()
    return {"host": here.document(), "key": {"command": "ingest", **here.key()}}
