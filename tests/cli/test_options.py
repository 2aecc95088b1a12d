from __future__ import annotations

import pytest
import typer

from zcopy.cli import options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, ()), ([], ()), (["a,b", "b", " c "], ("a", "b", "c")), (["b", "a"], ("b", "a")),
    ],
)  # fmt: skip
def test_split_list(given: list[str] | None, words: tuple[str, ...]) -> None:
    assert options.split_list(given, "--x") == words


@pytest.mark.parametrize("given", [[""], ["a,"], ["a,,b"], ["a", " "]])
def test_an_empty_word_is_refused(given: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match="empty"):
        options.split_list(given, "--x")


def test_choose() -> None:
    known = ("shared", "file", "copy")
    assert options.choose(["file,shared"], known, "--route") == ("file", "shared")
    assert options.choose(["copy", "all"], known, "--route") == known
    with pytest.raises(typer.BadParameter, match=r"'pipe' is none of shared, file, copy, all") as caught:
        options.choose(["pipe"], known, "--route")
    assert caught.value.param_hint == "--route"


def test_split_numbers() -> None:
    assert options.split_numbers(["307,4105", "307"], "--cells") == (307, 4105)
    for wrong in ("0", "-1", "1.5", "x", "\u0661"):
        with pytest.raises(typer.BadParameter, match="positive integer"):
            options.split_numbers([wrong], "--cells")


def test_values() -> None:
    assert options.size("64KiB") == 65536
    assert options.duration("1.5s") == 1_500_000_000
    assert options.cpu_list("6,0-3") == "0-3,6"


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (options.size, "big"), (options.size, "-1"), (options.duration, "soon"), (options.cpu_list, "3-1"),
        (options.cpu_list, ""),
    ],
)  # fmt: skip
def test_wrong_values_say_what_they_are(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(typer.BadParameter):
        parse(text)
