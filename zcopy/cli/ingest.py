"""`zcopy ingest`: what engines log of their real serving, as a run of the history."""

from __future__ import annotations

from typing import Annotated

import typer

from zcopy.cli import context as app_context
from zcopy.cli.options import (
    DbOption,
    FormatOption,
    JsonOption,
    LabelOption,
    NoSaveOption,
    OutputOption,
    RequireSaveOption,
    duration,
    examples,
    split_list,
)
from zcopy.cli.output import Results
from zcopy.errors import UsageError
from zcopy.model import Scalar

EPILOG = examples(
    "zcopy ingest serve.log",
    "zcopy ingest serve.log --case model=qwen3-4b --case buffer=udmabuf",
    "journalctl -u llama-server -o cat | zcopy ingest -",
    "zcopy ingest --follow --new --for 1h /var/log/serve.log",
)
# What a case of the probe's has and no log line says.
STATED = (
    "model", "ctx", "buffer", "region", "populate", "pass", "type_k", "type_v", "v_trans", "scatter", "provider",
    "threads", "forge", "state_dir",
)  # fmt: skip


def command(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A log, or - for stdin.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as the log grows, through rotation and truncation.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="With --follow: only what is written from now on.")
    ] = False,
    span: Annotated[
        int | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            parser=duration,
            help="With --follow: for so long (10m, 1h).",
            show_default="until Ctrl-C",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="LIST",
            help="Names in [ph] and [prof] rows whose values tell cases apart, e.g. M.",
        ),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            metavar="KEY=VALUE",
            help="What the log does not say of every case, e.g. model=qwen3-4b (repeat).",
        ),
    ] = None,
    elsewhere: Annotated[
        str | None,
        typer.Option(
            "--elsewhere", metavar="NAME", help="The log is of the box NAME: keep no facts of this one."
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the lines that are not understood, on stderr.")
    ] = False,
    format: FormatOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
    label: LabelOption = None,
    db: DbOption = None,
    no_save: NoSaveOption = False,
    require_save: RequireSaveOption = False,
) -> int:
    """Read what an engine has logged of its handoffs and phases into the history.

    Handoff lines, [ph] and [prof] rows, and llama.cpp's timings become rows of a run; lines that are not understood
    are counted. Nothing is measured, and no lock is taken.
    """
    app = app_context.app(ctx)
    with Results.open(app, format, json, output) as results:
        # Late: sqlite3 and the host's facts cost what help need not pay.
        from zcopy.cli.ingest_tables import ingest_report
        from zcopy.cli.ingesting import Ingest, Words, begin, opened
        from zcopy.cli.measuring import conclude
        from zcopy.history.ids import new_id
        from zcopy.history.location import history_settings
        from zcopy.history.recorder import NullRecorder, Recorder

        words = Words(file, follow, new, span, split_list(by, "--by"), stated(case or []), elsewhere, label)
        words.check()
        with opened(app, words) as log:
            settings = history_settings(app.db_path(db), app.environ)
            keeper = NullRecorder() if no_save else Recorder(settings)
            begun = begin(app, words, new_id(app.now(), app.random.getrandbits))
            done = Ingest(app, words, keeper, begun, verbose).run(log)
        return conclude(app, results, done, require_save and not no_save, ingest_report)


def stated(words: list[str]) -> dict[str, Scalar]:
    """``model=qwen3-4b`` → {"model": "qwen3-4b"}, numbers and true and false as such. Raises UsageError."""
    found: dict[str, Scalar] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not text or key not in STATED:
            raise UsageError(f"--case {word!r} is not KEY=VALUE", f"keys are {', '.join(STATED)}")
        flags = {"true": True, "false": False}
        found[key] = flags.get(
            text, int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else text
        )
    return found
