"""`zcopy history`: list and show saved runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from zcopy.cli.context import AppContext
from zcopy.cli.context import app as app_of
from zcopy.cli.group import new_app
from zcopy.cli.options import DbOption, FormatOption, JsonOption, OutputOption, examples
from zcopy.cli.output import Results
from zcopy.cli.run_tables import list_report, run_report
from zcopy.model import Status

if TYPE_CHECKING:
    from pathlib import Path

    from zcopy.history.store import Store

app = new_app("List and show saved runs.")


@app.command(
    "list", epilog=examples("zcopy history list --limit 10", "zcopy history list --status failed --json")
)
def list_(
    ctx: typer.Context,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, metavar="N", help="Only the N newest.", show_default="all"),
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="COMMAND", help="Only runs of this command.")
    ] = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only runs that ended so.")] = None,
    format: FormatOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
    db: DbOption = None,
) -> None:
    """The saved runs, newest first."""
    context = app_of(ctx)
    with Results.open(context, format, json, output) as results, _open(context, db) as store:
        results.emit(list_report(store.runs(limit, command, status)))


@app.command(epilog=examples("zcopy history show @last", "zcopy history show 20261130-2105 --json"))
def show(
    ctx: typer.Context,
    ref: Annotated[
        str,
        typer.Argument(metavar="RUN", help="An id or the beginning of one, a tag, @last or @prev."),
    ],
    format: FormatOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
    db: DbOption = None,
) -> None:
    """One run with all its rows; --json has every sample."""
    context = app_of(ctx)
    with Results.open(context, format, json, output) as results, _open(context, db) as store:
        results.emit(run_report(store.load(store.resolve(ref))))


def _open(context: AppContext, db: Path | None) -> Store:
    """The history for reading, after telling what it has to say. Raises StoreError (exit 74)."""
    # Late: sqlite3 costs 10 ms that help and completion do not pay.
    from zcopy.history.location import history_settings
    from zcopy.history.reader import open_to_show

    store = open_to_show(history_settings(context.db_path(db), context.environ))
    for warning in store.warnings:
        context.warn(warning.text)
    return store
