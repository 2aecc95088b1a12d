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
    from zcopy.cli.context import AppContext
    from zcopy.seqstate.against import Expectation

EPILOG = examples(
    "zcopy inspect slot.bin",
    "zcopy inspect slot.bin --against qwen3-4b --ctx 4608",
    "zcopy inspect *.bin --against MODEL.gguf --type-k q8_0 --type-v q8_0 --json",
)


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
        int | None, typer.Option("--ctx", min=1, help="Cells of that server's cache, with --against.")
    ] = None,
    type_k: Annotated[
        str, typer.Option("--type-k", help="Of that server: f32, f16, bf16, q8_0 or q4_0.")
    ] = "f16",
    type_v: Annotated[
        str, typer.Option("--type-v", help="Of that server: f32, f16, bf16, q8_0 or q4_0.")
    ] = "f16",
    v_trans: Annotated[
        bool, typer.Option("--v-trans", help="That server has V transposed (flash attention off).")
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
    if against is None and ctx_cells is not None:
        raise UsageError("--ctx belongs to --against")
    with Results.open(app, format, json, output) as results:
        from zcopy.cli.inspect_tables import Inspected, inspect_report
        from zcopy.seqstate.against import objections
        from zcopy.seqstate.state import inspect

        server = _expectation(app, against, (type_k, type_v), v_trans, ctx_cells) if against else None
        found = []
        for file in files:
            state = inspect(app.settings.cwd / file)
            found.append(Inspected(str(file), state, objections(state, server) if server else None))
        results.emit(inspect_report(found, server))
        good = all(each.state.whole and not each.objections for each in found)
        return Exit.OK if good else Exit.FAILED


def _expectation(
    app: AppContext, against: str, types: tuple[str, str], v_trans: bool, ctx: int | None
) -> Expectation:
    from zcopy.cli.handoff_params import cache_of, geometry_of
    from zcopy.engines.llama.model import cache_kind
    from zcopy.probes.handoff.geometry import PRESETS
    from zcopy.seqstate.against import Expectation

    geometry = geometry_of(app, against, (None,) * 4)
    cache = cache_of(geometry, *types, v_trans, (0, 0))
    rotated = tuple(
        kind.block > 1 and head % 64 == 0
        for kind, head in ((cache.type_k, geometry.head_k), (cache.type_v, geometry.head_v))
    )
    return Expectation(
        name=geometry.name,
        rows=tuple((cache.type_k.row_bytes(k), cache.type_v.row_bytes(v)) for k, v in geometry.rows),
        types=cache.numbers,
        v_trans=v_trans,
        rotated=(rotated[0], rotated[1]),
        kind="full" if against in PRESETS else cache_kind(app.settings.cwd / against),
        ctx=ctx,
    )
