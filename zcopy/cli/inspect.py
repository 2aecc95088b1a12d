"""`zcopy inspect`: what is in a sequence-state file, whether it is whole, whether a server would take it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zcopy.cli.context import app as app_of
from zcopy.cli.options import FormatOption, JsonOption, OutputOption, examples
from zcopy.cli.output import Results
from zcopy.errors import Exit, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zcopy.cli.inspect_tables import Inspected
    from zcopy.seqstate.against import Server

EPILOG = examples(
    "zcopy inspect slot.bin",
    "zcopy inspect slot.bin --against qwen3-4b --ctx 4608",
    "zcopy inspect *.bin --against MODEL.gguf --type-k q8_0 --type-v q8_0 --json",
)
_TYPES = "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl"


def command(
    ctx: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Sequence-state files of llama.cpp.", show_default=False),
    ],
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="NAME|FILE.gguf", help="Would a server of this model take it?"),
    ] = None,
    ctx_cells: Annotated[
        int | None, typer.Option("--ctx", min=1, help="Cells of a slot of that server, with --against.")
    ] = None,
    streams: Annotated[
        int, typer.Option("--streams", min=1, max=256, help="Its slots, where each has a cache of its own.")
    ] = 1,
    type_k: Annotated[str, typer.Option("--type-k", help=f"Its K rows: {_TYPES}.")] = "f16",
    type_v: Annotated[str, typer.Option("--type-v", help="Its V rows: one of the same.")] = "f16",
    v_trans: Annotated[
        bool, typer.Option("--v-trans", help="It has V transposed (flash attention off).")
    ] = False,
    format: FormatOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
) -> int:
    """What is in a llama.cpp sequence-state file, and is it whole?

    Reads heads and positions, never the rows, so files of any size take a moment. Exit code 1 says that a file is
    not whole, or that the server that was asked about would not take it.
    """
    app = app_of(ctx)
    if against is None and (
        ctx_cells is not None or streams != 1 or v_trans or (type_k, type_v) != ("f16",) * 2
    ):
        raise UsageError("--ctx, --streams, --type-k, --type-v and --v-trans belong to --against")
    with Results.open(app, format, json, output) as results:
        from zcopy.cli.inspect_tables import inspect_report  # late: help must not load what reads

        folder = app.settings.cwd
        types = type_k, type_v
        server = None if against is None else _server(against, folder, types, v_trans, streams, ctx_cells)
        found = [_inspected(folder, file, server) for file in files]
        results.emit(inspect_report(found, server))
        return _exit(found)


def _server(
    against: str, folder: Path, types: tuple[str, str], v_trans: bool, streams: int, ctx: int | None
) -> Server:
    from zcopy.cli.inspect_server import server_of  # late: presets bring the native module with them

    return server_of(against, folder, types, v_trans, streams, ctx)


def _inspected(folder: Path, file: Path, server: Server | None) -> Inspected:
    from zcopy.cli.inspect_tables import Inspected
    from zcopy.seqstate.against import objections
    from zcopy.seqstate.state import UnreadableError, inspect

    try:
        state = inspect(folder / file)
    except UnreadableError as error:
        return Inspected(str(file), None, None, error.message)
    return Inspected(str(file), state, objections(state, server) if server else None)


def _exit(found: Sequence[Inspected]) -> Exit:
    """A file that is not good outweighs one that cannot be read."""
    if any(each.objections or (each.state and not each.state.whole) for each in found):
        return Exit.FAILED
    return Exit.USAGE if any(each.unread for each in found) else Exit.OK
