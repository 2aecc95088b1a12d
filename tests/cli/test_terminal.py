from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from zcopy.cli import terminal

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("environ", "on_terminal", "on_pipe"),
    [
        ({}, True, False),
        ({"TERM": "xterm"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"NO_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"CLICOLOR_FORCE": "0"}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_one_function_decides_colour(environ: Mapping[str, str], on_terminal: bool, on_pipe: bool) -> None:
    assert terminal.wants_colour(environ, isatty=True) is on_terminal
    assert terminal.wants_colour(environ, isatty=False) is on_pipe


@pytest.mark.parametrize(
    ("columns", "own", "width"),
    [("120", 80, 120), ("0", 80, 80), ("-3", 80, 80), ("wide", 80, 80), ("", 80, 80), ("", None, None)],
)
def test_width(columns: str, own: int | None, width: int | None) -> None:
    assert terminal.width({"COLUMNS": columns}, own) == width


@pytest.mark.parametrize(
    ("codeset", "encoding", "ascii"),
    [
        ("UTF-8", "utf-8", False), ("ANSI_X3.4-1968", "utf-8", True), ("UTF-8", "ascii", True),
        ("ISO-8859-1", "iso-8859-1", True), ("no such codeset", "utf-8", True),
    ],
)  # fmt: skip
def test_ascii(codeset: str, encoding: str, ascii: bool) -> None:
    assert terminal.is_ascii(codeset, encoding) is ascii


def test_a_terminal_gets_a_coloured_table(sample: Any) -> None:
    shown = sample.on_terminal("sample", "--label", "[/x] [no copy]")
    assert ESCAPE.search(shown)
    plain = ESCAPE.sub("", shown)
    assert "[/x] [no copy]" in plain
    assert "0.122" in plain
    assert "—" in plain
    assert "→ shared" in plain


@pytest.mark.parametrize(
    "extra", [{"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb"}, {"CLICOLOR": "0"}]
)
def test_a_terminal_without_colour_gets_no_escapes(sample: Any, extra: dict[str, str]) -> None:
    shown = sample.on_terminal("sample", **extra)
    assert shown.startswith("sample\n")
    assert "\x1b" not in shown


def test_forced_colour_colours_a_table_but_no_tsv(sample: Any) -> None:
    assert "\x1b[32m" in sample("sample", "--format", "table", FORCE_COLOR="1").stdout
    assert "\x1b" not in sample("sample", FORCE_COLOR="1").stdout


@pytest.mark.parametrize("columns", [200, 100, 80, 40])
def test_a_table_fits_its_terminal(sample: Any, columns: int) -> None:
    shown = sample.on_terminal("sample", "--label", "x" * 9, columns=columns, NO_COLOR="1")
    assert max(len(line) for line in shown.splitlines()) <= columns
    assert "20261130-210000-abc" in shown
    assert "16399" in shown
    assert ("Not shown" in shown) is (columns == 40)


def test_columns_wins_over_the_terminal(sample: Any) -> None:
    shown = sample.on_terminal("sample", columns=200, COLUMNS="40", NO_COLOR="1")
    assert "Not shown at 40 columns" in shown


def test_ids_and_numbers_are_whole_on_the_narrowest_terminal(sample: Any) -> None:
    shown = sample.on_terminal("sample", columns=10, NO_COLOR="1")
    assert "20261130-210000-abc  16399" in shown


@pytest.mark.parametrize("extra", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "ascii"}])
def test_an_ascii_locale_gets_ascii(sample: Any, extra: dict[str, str]) -> None:
    for shown in (
        sample.on_terminal("sample", "--warn", "no → here", **extra),
        sample("sample", "--format", "table", **extra).stdout,
        sample("sample", "--format", "md", **extra).stdout,
    ):
        assert shown.isascii()
        assert "-> shared" in shown
        assert "Traceback" not in shown


def test_progress_is_for_terminals_only(sample: Any) -> None:
    script = sample("sample", "--warn", "one")
    assert script.stderr == "zcopy: warning: one\n"


def test_progress_is_drawn_over_and_taken_away(sample: Any) -> None:
    command = f"timeout -s INT 1.5 {' '.join(sample.argv('sample', '--sleep', '--json'))}"
    shown = type(sample)(
        ("-c", f"import os; os.system({command!r})"), sample.environ, sample.folder
    ).on_terminal(stdout=subprocess.DEVNULL)
    assert "sampling" in shown
    assert "/1000" in shown
    assert "/s" in shown
    assert "left" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[K")


def test_one_line() -> None:
    assert terminal.one_line("a\n b\t\x1b[31mc\u2028d") == "a b \\x1b[31mc d"
