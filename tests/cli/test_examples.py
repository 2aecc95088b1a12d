"""The examples of help texts: they fit, and a shell still understands them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from zcopy.cli.examples import examples, fitted

EPILOG = examples(
    "printf '%s|' --model tiny --cells 64        # what is said about it, at some length",
    """printf '%s|' "two words" -v --json -o file""",
)


def test_what_fits_is_left_alone() -> None:
    assert list(fitted(EPILOG, 200)) == EPILOG.splitlines()


@pytest.mark.parametrize("width", [30, 40, 60])
def test_what_is_broken_fits_and_can_be_pasted(width: int) -> None:
    lines = list(fitted(EPILOG, width))
    assert lines[0] == "Examples:"
    assert max(map(len, lines)) <= width
    pasted = subprocess.run(
        ["sh"], input="\n".join(lines[1:]), capture_output=True, text=True, check=True, timeout=10
    )
    assert pasted.stdout == "--model|tiny|--cells|64|two words|-v|--json|-o|file|"


def test_a_remark_stands_above_and_an_option_keeps_its_value() -> None:
    assert list(fitted(EPILOG, 36))[1:6] == [
        "  # what is said about it, at some",
        "  # length",
        "  printf '%s|' --model tiny \\",
        "      --cells 64",
        "  printf '%s|' \"two words\" -v \\",
    ]


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("words", [[], ["handoff"], ["history", "show"], ["config", "set"]])
def test_help_fits_its_terminal(zcopy: Any, words: list[str], columns: int) -> None:
    shown = zcopy(*words, "--help", COLUMNS=str(columns)).stdout
    assert max(map(len, shown.splitlines())) <= columns
