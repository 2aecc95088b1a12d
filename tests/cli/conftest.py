"""Real processes of zcopy: through pipes, through a terminal, and with a command made for these tests."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# A command with everything that a measuring command does to the command line, minus the measuring.
SAMPLE = '''
import os, time
from pathlib import Path
import typer
from zcopy import errors
from zcopy.cli.context import app
from zcopy.cli.options import FormatOption, JsonOption, OutputOption, WaitOption, examples
from zcopy.cli.output import Results
from zcopy.model import Row, Run
from zcopy.table import Column, Kind, Report, Table

EPILOG = examples("zcopy sample", "zcopy sample --json")
COLUMNS = (
    Column("id", "id", kind=Kind.ID, priority=0), Column("cells", "cells", kind=Kind.COUNT, priority=0),
    Column("total", "total", kind=Kind.NS, priority=1),
    Column("copied", "copied", kind=Kind.BYTES, priority=2),
    Column("outcome", "outcome", kind=Kind.OUTCOME, priority=3), Column("label", "label", priority=4),
)

def command(
    ctx: typer.Context, label: str = "", raises: str = "", sleep: bool = False, rows: int = 1, warn: str = "",
    started: str = "", format: FormatOption = None, json: JsonOption = False, output: OutputOption = None,
    wait: WaitOption = None,
) -> int:
    """Print a table. [text] in brackets stays."""
    context = app(ctx)
    run = Run("20261130-210000-abc", "sample", "2026-11-30T21:00:00Z", "0.1.0", rows=(Row({"cells": 307}),))
    row = {"id": run.id, "cells": 16399, "total": 122345, "copied": None, "outcome": "ok", "label": label}
    report = Report((Table("sample", COLUMNS, (row,) * rows, ("serves best \\u2192 shared",)),), run.document)
    with Results.open(context, format, json, output) as results:
        if warn:
            context.warn(warn)
        if started:
            Path(started).touch()
        if raises:
            raise getattr(errors, raises)("the thing: no such thing", "try another") if raises != "bug" else (
                ZeroDivisionError("a bug"))
        try:
            for step in range(1000 if sleep else 0):
                context.progress("sampling", step, 1000)
                time.sleep(0.01)
        except errors.Stopped as stopped:
            results.emit(report, partial=True)
            return stopped.exit
        results.emit(report)
    return 0
'''
DRIVER = """
import zcopy.cli.commands as commands
commands.COMMANDS += (commands.Entry("sample", "sample_command", "Print a table."),)
from zcopy.cli.main import main
main()
"""


@dataclass(frozen=True)
class Cli:
    """Starts zcopy with an environment of its own. Extra keywords are environment variables."""

    words: tuple[str, ...]
    environ: Mapping[str, str]
    folder: Path

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, *self.words, *args]

    def env(self, **extra: str | None) -> dict[str, str]:
        merged = {**self.environ, **extra}
        return {name: value for name, value in merged.items() if value is not None}

    def __call__(self, *args: str, **extra: str | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*args), env=self.env(**extra), cwd=self.folder, capture_output=True,
            encoding="utf-8", errors="surrogateescape", timeout=30, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self, *args: str, **keywords: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.argv(*args), env=self.env(), cwd=self.folder, **keywords)

    def shell(self, line: str, **extra: str | None) -> subprocess.CompletedProcess[str]:
        """`line` in bash, where $Z is zcopy."""
        command = " ".join(f"'{word}'" for word in self.argv())
        return subprocess.run(
            ["bash", "-c", f"Z() {{ {command} \"$@\"; }}; {line}"], env=self.env(**extra), cwd=self.folder,
            capture_output=True, encoding="utf-8", timeout=30, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def on_terminal(self, *args: str, columns: int = 80, stdout: Any = None, **extra: str | None) -> str:
        """What a terminal of that width shows of both streams (or of stderr, with stdout elsewhere)."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            self.argv(*args), env=self.env(**{"TERM": "xterm", **extra}), cwd=self.folder,
            stdin=theirs, stdout=theirs if stdout is None else stdout, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        shown = _read_all(ours)
        process.wait(30)
        return shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _read_all(fd: int) -> bytes:
    chunks = []
    while select.select([fd], [], [], 30)[0]:
        try:
            chunk = os.read(fd, 65536)
        except OSError:  # EIO: the other side is closed
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(fd)
    return b"".join(chunks)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment without the developer's own settings, with a home of its own."""
    kept = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    home = tmp_path / "home"
    home.mkdir()
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm",
    }  # fmt: skip


@pytest.fixture
def zcopy(environ: dict[str, str], tmp_path: Path) -> Cli:
    """`python -m zcopy`."""
    return Cli(("-m", "zcopy"), environ, tmp_path)


@pytest.fixture
def sample(environ: dict[str, str], tmp_path: Path) -> Cli:
    """zcopy with one more command, `sample`."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "sample_command.py").write_text(SAMPLE)
    (folder / "driver.py").write_text(DRIVER)
    return Cli((str(folder / "driver.py"),), environ, tmp_path)


@pytest.fixture
def wait_for() -> Callable[[Path], None]:
    """Waits until a file is there."""

    def wait(path: Path) -> None:
        deadline = time.monotonic() + 20
        while not path.exists():
            assert time.monotonic() < deadline, f"{path} never came"
            time.sleep(0.01)

    return wait
