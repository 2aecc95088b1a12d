"""Option types that commands share, and how their texts become values.

A command writes ``format: FormatOption = None, json: JsonOption = False, output: OutputOption = None``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import typer

from zcopy import units
from zcopy.cli.examples import examples as examples
from zcopy.render import Format

T = TypeVar("T")


def size(text: str) -> int:
    """Bytes of ``64KiB``; for ``typer.Option(parser=size)``, which names the option in the error."""
    return _parsed(units.parse_size, text)


def duration(text: str) -> int:
    """Nanoseconds of ``2s``; for ``typer.Option(parser=duration)``."""
    return _parsed(units.parse_duration, text)


def cpu_list(text: str) -> str:
    """A CPU list (``3,0-2``) checked and in the kernel's own form (``0-3``)."""
    from zcopy.host.cpulist import cpus_text, parse_cpus

    return cpus_text(_parsed(parse_cpus, text))


def split_list(values: Iterable[str] | None, option: str) -> tuple[str, ...]:
    """The words of an option that repeats or takes commas, in order, each once: ``a,b`` ``b`` → a, b.

    Raises BadParameter (exit 2) for an empty word: an unset shell variable must not quietly mean the default.
    """
    words = [word.strip() for value in values or () for word in value.split(",")]
    if not all(words):
        raise typer.BadParameter("an empty value", param_hint=option)
    return tuple(dict.fromkeys(words))


def choose(values: Iterable[str] | None, known: Sequence[str], option: str) -> tuple[str, ...]:
    """`split_list`, with `all` for every known word. Raises BadParameter (exit 2) naming the unknown one."""
    words = split_list(values, option)
    if "all" in words:
        return tuple(known)
    for word in words:
        if word not in known:
            raise typer.BadParameter(f"{word!r} is none of {', '.join((*known, 'all'))}", param_hint=option)
    return words


def split_numbers(values: Iterable[str] | None, option: str) -> tuple[int, ...]:
    """`split_list` of positive integers. Raises BadParameter (exit 2) naming the option."""
    words = split_list(values, option)
    for word in words:
        if not (word.isascii() and word.isdecimal() and int(word) > 0):
            raise typer.BadParameter(f"{word!r} is not a positive integer", param_hint=option)
    return tuple(dict.fromkeys(int(word) for word in words))


def _parsed(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


FormatOption: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="How results are written.",
        show_default="by -o's suffix, else table on a terminal and tsv elsewhere",
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
OutputOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the results to FILE, whole or not at all; - is stdout."
    ),
]
DbOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--db", metavar="FILE", help="The history to use (env: ZCOPY_DB).", show_default="the user's own"
    ),
]
NoSaveOption: TypeAlias = Annotated[bool, typer.Option("--no-save", help="Do not save the run.")]
RequireSaveOption: TypeAlias = Annotated[
    bool, typer.Option("--require-save", help="Exit 74 when the run cannot be saved.")
]
NoLockOption: TypeAlias = Annotated[
    bool,
    typer.Option("--no-lock", help="Measure without device locks; the run is marked (env: ZCOPY_NO_LOCK)."),
]
WaitOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--wait",
        metavar="DURATION",
        parser=duration,
        help="Wait at most so long for locks (2s, 10m), then exit 75.",
        show_default="as long as it takes",
    ),
]
LabelOption: TypeAlias = Annotated[
    str | None, typer.Option("--label", metavar="TEXT", help="A remark that is saved with the run.")
]
CpusOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cpus",
        metavar="LIST",
        parser=cpu_list,
        help="Pin to these CPUs, e.g. 4-7.",
        show_default="not pinned",
    ),
]
PlanOption: TypeAlias = Annotated[
    bool,
    typer.Option("--plan", help="Say which cases, how much memory and disk, and how long; measure nothing."),
]
StrictOption: TypeAlias = Annotated[
    bool, typer.Option("--strict", help="Exit 4 when the result is not comparable or inconclusive.")
]
RequireQuietOption: TypeAlias = Annotated[
    bool, typer.Option("--require-quiet", help="Exit 75 when the machine is not quiet instead of warning.")
]
