"""`zcopy doctor`: what this box has, what zcopy can use of it and why not, and where zcopy keeps things."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

import zcopy
from zcopy.cli import context as app_context
from zcopy.cli.locking import lock_settings
from zcopy.cli.options import DbOption, FormatOption, JsonOption, OutputOption, examples
from zcopy.cli.output import Results

if TYPE_CHECKING:
    from pathlib import Path

    from zcopy.cli.context import AppContext
    from zcopy.doctor import Diagnosis

EPILOG = examples("zcopy doctor", "zcopy doctor --json | jq .buffers", "zcopy doctor | grep ^buffer")


def command(
    ctx: typer.Context,
    format: FormatOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
    db: DbOption = None,
) -> None:
    """What this box has: buffer kinds and why not, drivers, governors, devices, locks, store.

    Tries one small buffer of each kind; measures nothing and takes no lock. Exits 0 whatever it finds.
    """
    app = app_context.app(ctx)
    with Results.open(app, format, json, output) as results:
        # Late: help must not load the native module.
        from zcopy.cli.doctor_tables import doctor_report

        results.emit(doctor_report(_diagnosis(app, db)))


def _diagnosis(app: AppContext, db: Path | None) -> Diagnosis:
    from zcopy.buffers.registry import kinds
    from zcopy.doctor import diagnose
    from zcopy.history.location import history_settings
    from zcopy.host import Host

    host = Host.read()
    return diagnose(
        host,
        kinds(host),
        lock_settings(app),
        history_settings(app.db_path(db), app.environ),
        version=zcopy.__version__,
        now_ns=int(app.now().timestamp()) * 10**9,
    )
