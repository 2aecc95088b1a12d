from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy import __version__
from zcopy.cli.commands import COMMANDS

HEAVY = ("numpy", "rich", "sqlite3", "cffi", "zcopy.native", "platformdirs")
_LOADED = """
import contextlib, json, sys
from zcopy.cli.main import run
sys.argv = ["zcopy", *{args!r}]
code = run()
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["config", "--help"], ["config", "path"]])
def test_help_and_version_load_nothing_heavy(zcopy: Any, args: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(args=args)],
        env=zcopy.env(ZCOPY_CONFIG="/nowhere"), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert [name for name in modules if name in HEAVY or name.startswith("zcopy.native")] == []
    if args == ["--help"]:
        assert [entry.module for entry in COMMANDS if entry.module in modules] == []


def test_version_costs_no_typer(zcopy: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(args=["--version"])],
        env=zcopy.env(), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == f"{__version__}\n"
    assert "typer" not in json.loads(done.stderr)[1]


def test_version_beside_other_words(zcopy: Any) -> None:
    done = zcopy("--version", "config")
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")


def test_help_names_every_command(zcopy: Any) -> None:
    done = zcopy("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for entry in COMMANDS:
        assert entry.name in done.stdout
    assert done.stdout.isascii()


def test_help_of_a_command(sample: Any) -> None:
    done = sample("sample", "-h")
    assert done.returncode == 0
    assert "[text] in brackets stays" in done.stdout
    assert "--wait DURATION" in done.stdout
    assert "[default: 1]" in done.stdout
    assert "    zcopy sample\n    zcopy sample --json\n" in done.stdout


@pytest.mark.parametrize("words", [["config", "show"], ["config", "path"], ["config", "set"]])
def test_help_gives_two_examples_in_plain_ascii(zcopy: Any, words: list[str]) -> None:
    done = zcopy(*words, "--help")
    examples = done.stdout.partition("Examples:\n")[2].splitlines()
    assert len([line for line in examples if f"zcopy {' '.join(words)}" in line]) == 2
    assert done.stdout.isascii()


@pytest.mark.parametrize("words", [[], ["config"]])
def test_a_group_alone_shows_its_help_as_an_error(zcopy: Any, words: list[str]) -> None:
    done = zcopy(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"Usage: {' '.join(['zcopy', *words])} ")
    assert "config" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cnfig"], "no command 'cnfig', did you mean config? (try 'zcopy --help')"),
        (["--bogus"], "--bogus"),
        (["config", "shw"], "no command 'shw', did you mean show? (try 'zcopy config --help')"),
        (["config", "set", "output.format"], "(try 'zcopy config set --help')"),
        (["sample", "--wait", "soon"], "'--wait': 'soon' is not a duration"),
        (["sample", "--format", "xml"], "xml"),
        (["sample", "--json", "--format", "csv"], "--json contradicts --format csv"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(sample: Any, words: list[str], says: str) -> None:
    done = sample(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("zcopy: error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("MeasurementError", 1), ("UsageError", 2), ("RefusedError", 69), ("OutputError", 74),
        ("BusyError", 75), ("SkippedError", 77),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_their_exit_code(sample: Any, error: str, code: int) -> None:
    done = sample("sample", "--raises", error)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr == "zcopy: error: the thing: no such thing (try another)\n"


def test_a_bug_is_one_line(sample: Any) -> None:
    done = sample("sample", "--raises", "bug")
    assert done.returncode == 1
    assert (
        done.stderr == "zcopy: error: unexpected ZeroDivisionError: a bug; set ZCOPY_DEBUG=1 to see where\n"
    )


@pytest.mark.parametrize(("value", "traced"), [("1", True), ("0", False), ("", False)])
def test_debug_shows_the_traceback(sample: Any, value: str, traced: bool) -> None:
    done = sample("sample", "--raises", "bug", ZCOPY_DEBUG=value)
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) is traced


def test_a_missing_module_is_said_when_it_is_called(sample: Any) -> None:
    driver = Path(sample.words[0])
    driver.write_text(driver.read_text().replace('"sample_command"', '"no_such_module"'))
    assert sample("--help").returncode == 0
    done = sample("sample")
    assert done.returncode == 1
    assert done.stderr == "zcopy: error: this build has no sample command: no_such_module is missing\n"


def test_a_module_that_lacks_an_import_is_a_bug_with_its_name(sample: Any) -> None:
    (Path(sample.words[0]).parent / "sample_command.py").write_text("import no_such_dependency")
    done = sample("sample")
    assert done.returncode == 1
    assert "no_such_dependency" in done.stderr
    assert "this build has no" not in done.stderr


def test_warnings_are_one_line_each_and_drive_no_terminal(sample: Any) -> None:
    done = sample("sample", "--warn", "two\nlines \x1b[2J")
    assert done.returncode == 0
    assert done.stderr == "zcopy: warning: two lines \\x1b[2J\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_signals_keep_what_there_is(
    sample: Any, wait_for: Callable[[Path], None], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = sample.start(
        "sample", "--sleep", "--json", "--started", str(tmp_path / "started"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_for(tmp_path / "started")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert json.loads(out)["schema"] == "zcopy.run/1"
    assert err == b""


def test_a_signal_that_was_ignored_stays_ignored(
    sample: Any, wait_for: Callable[[Path], None], tmp_path: Path
) -> None:
    process = sample.start(
        "sample", "--sleep", "--started", str(tmp_path / "started"),
        stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    wait_for(tmp_path / "started")
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.terminate()
    assert process.wait(20) == 143


_STUBBORN = """
import os, signal, sys, time
from zcopy.cli.signals import install
from zcopy.errors import Stopped
install()
try:
    print("ready", flush=True)
    time.sleep(30)
except Stopped:
    print("cleaning", flush=True)
    time.sleep(30)
"""


def test_the_second_signal_explains_and_the_third_kills(zcopy: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _STUBBORN], env=zcopy.env(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.stdout.readline() == "cleaning\n"
    process.terminate()
    assert process.stderr.readline() == "\n"
    assert "once more quits" in process.stderr.readline()
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM
