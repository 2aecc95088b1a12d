"""`zcopy config`: show, locate and set configuration."""

from __future__ import annotations

from typing import Annotated

import typer

from zcopy import config
from zcopy.cli.context import AppContext
from zcopy.cli.context import app as app_of
from zcopy.cli.group import new_app
from zcopy.cli.options import FormatOption, JsonOption, OutputOption, examples
from zcopy.cli.output import Results
from zcopy.model import Json
from zcopy.table import Cell, Column, Kind, Report, Table

SCHEMA = "zcopy.config/1"

app = new_app("Show, locate and set configuration.")

_COLUMNS = (
    Column("key", "key", kind=Kind.ID, priority=0),
    Column("value", "value", kind=Kind.ID, priority=0),
    Column("takes", "takes", kind=Kind.ID, priority=2),
    Column("meaning", "meaning", priority=1),
)


@app.command(epilog=examples("zcopy config show", "zcopy config show --json"))
def show(
    ctx: typer.Context,
    format: FormatOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Every key that zcopy knows or the file has, and its value."""
    context = app_of(ctx)
    with Results.open(context, format, json, output) as results:
        rows = _rows(context)
        table = Table(str(context.config_path), _COLUMNS, tuple(rows))
        results.emit(Report((table,), lambda: _document(context, rows)))


@app.command(epilog=examples("zcopy config path", 'vi "$(zcopy config path)"'))
def path(ctx: typer.Context) -> None:
    """Where the configuration file is, or would be."""
    context = app_of(ctx)
    context.streams.stdout.write(f"{context.config_path}\n")


@app.command(
    "set",
    epilog=examples("zcopy config set locks.gpu0 /run/lock/gpu-hold", "zcopy config set output.format md"),
)
def set_(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key of 'zcopy config show', e.g. locks.gpu0.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its new value; '' removes the key.")],
) -> None:
    """Change one key; every other key of the file stays."""
    context = app_of(ctx)
    backup = config.set_value(context.config_path, key, value, context.home)
    if backup is not None:
        context.warn(f"writing {context.config_path} dropped its comments; {backup} is the file as it was")


def _rows(context: AppContext) -> list[dict[str, Cell]]:
    values = config.flatten(config.read(context.config_path))
    context.config  # noqa: B018 - checks every value, and warns of unknown keys
    unset = [key for key in config.KEYS if not any(key.covers(name) for name in values)]
    rows = [_row(name, value, config.known(name)) for name, value in sorted(values.items())]
    return rows + [_row(key.name, None, key) for key in unset]


def _row(name: str, value: object, key: config.Key | None) -> dict[str, Cell]:
    return {
        "key": name,
        "value": None if value is None else str(value),
        "takes": key.what if key else None,
        "meaning": key.meaning if key else "not a key of zcopy",
    }


def _document(context: AppContext, rows: list[dict[str, Cell]]) -> dict[str, Json]:
    return {"schema": SCHEMA, "path": str(context.config_path), "keys": list(rows)}
