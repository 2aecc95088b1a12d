"""`zcopy handoff`: the options, as values of the probe's parameters."""

from __future__ import annotations

from typing import Annotated

import typer

from zcopy.cli import context as app_context
from zcopy.cli.handoff_connect import serve_decoder
from zcopy.cli.handoff_engine import EngineWords
from zcopy.cli.handoff_params import (
    buffers_of,
    cache_of,
    command_words,
    geometry_of,
    kernel_of,
    named_by_user,
    one_of,
    state_dirs_of,
)
from zcopy.cli.measuring import Common, measure, show_plan
from zcopy.cli.options import (
    CpusOption,
    DbOption,
    FormatOption,
    JsonOption,
    LabelOption,
    NoLockOption,
    NoSaveOption,
    OutputOption,
    PlanOption,
    RequireQuietOption,
    RequireSaveOption,
    WaitOption,
    choose,
    duration,
    examples,
    split_numbers,
)  # fmt: skip
from zcopy.cli.output import Results

EPILOG = examples(
    "zcopy handoff                       # the reference lengths on memfd, shared against the state file",
    "zcopy handoff --model tiny --cells 64 --route all --buffer udmabuf,memfd",
    "zcopy handoff --cells 307 --reps 200 --json -o handoff.json",
    "zcopy handoff --engine llama        # two real servers: does the decoder go on as it must?",
)

_CELLS = "307,4105,16399"


def command(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME|FILE.gguf",
            help="qwen3-4b, qwen3-30b-a3b, tiny, or a model file's header.",
        ),
    ] = "qwen3-4b",
    layers: Annotated[
        int | None, typer.Option("--layers", help="A geometry of your own instead of --model.")
    ] = None,
    kv_heads: Annotated[
        int | None, typer.Option("--kv-heads", help="KV heads per layer, with --layers.")
    ] = None,
    head_dim: Annotated[
        int | None, typer.Option("--head-dim", help="Elements of a K head, with --layers.")
    ] = None,
    head_dim_v: Annotated[
        int | None,
        typer.Option("--head-dim-v", help="Elements of a V head, with --layers.", show_default="as K"),
    ] = None,
    cells: Annotated[
        list[str] | None, typer.Option("--cells", metavar="LIST", help="Prompt lengths.", show_default=_CELLS)
    ] = None,
    ctx_cells: Annotated[
        list[str] | None,
        typer.Option(
            "--ctx",
            metavar="LIST",
            help="Cells of the cache: one for all, or one for each of --cells.",
            show_default="the multiple of 512 nearest to cells + 4096",
        ),
    ] = None,
    type_k: Annotated[str, typer.Option("--type-k", help="f32, f16, bf16, q8_0 or q4_0.")] = "f16",
    type_v: Annotated[str, typer.Option("--type-v", help="f32, f16, bf16, q8_0 or q4_0.")] = "f16",
    v_trans: Annotated[
        bool, typer.Option("--v-trans", help="V lies transposed (flash attention off).")
    ] = False,
    n_rot_k: Annotated[
        int, typer.Option("--n-rot-k", min=0, help="The rotation that quantised K rows have.")
    ] = 0,
    n_rot_v: Annotated[
        int, typer.Option("--n-rot-v", min=0, help="The rotation that quantised V rows have.")
    ] = 0,
    route: Annotated[
        list[str] | None,
        typer.Option(
            "--route", metavar="LIST", help="shared, file, copy, pipe or all.", show_default="shared,file"
        ),
    ] = None,
    buffer: Annotated[
        list[str] | None,
        typer.Option(
            "--buffer",
            metavar="LIST",
            help="Kinds of memory for the region, or all; zcopy doctor lists them.",
            show_default="memfd",
        ),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            "--region",
            metavar="LIST",
            help="reused: made once; fresh: a new region (or file) per request.",
            show_default="reused,fresh",
        ),
    ] = None,
    populate: Annotated[
        list[str] | None,
        typer.Option(
            "--populate",
            metavar="LIST",
            help="none; map: by the exporter; prefault: and one byte per 64 KiB read by the provider.",
            show_default="prefault for reused, none for fresh",
        ),
    ] = None,
    passing: Annotated[
        list[str] | None,
        typer.Option(
            "--pass", metavar="LIST", help="How the descriptor travels: scm or inherit.", show_default="scm"
        ),
    ] = None,
    scatter: Annotated[bool, typer.Option("--scatter", help="Adopt into a fragmented cache.")] = False,
    reps: Annotated[
        int | None,
        typer.Option(
            "--reps",
            metavar="N",
            help="Timed repetitions of each case.",
            show_default="5, or 3 on a slow box",
        ),
    ] = None,
    state_dir: Annotated[
        list[str] | None,
        typer.Option(
            "--state-dir",
            metavar="DIR",
            help="Where state files go (repeat for several file systems).",
            show_default="the platform's cache folder",
        ),
    ] = None,
    provider: Annotated[
        str, typer.Option("--provider", help="plain, or asan: built with AddressSanitizer.")
    ] = "plain",
    provider_cmd: Annotated[
        str | None,
        typer.Option("--provider-cmd", metavar="CMD", help="A provider of your own (docs/protocol.md)."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="PATH", help="Wait there for a provider of your own."),
    ] = None,
    connect: Annotated[
        str | None,
        typer.Option(
            "--connect", metavar="PATH", help="Play the provider for your own decoder, which listens there."
        ),
    ] = None,
    inject: Annotated[
        str | None,
        typer.Option(
            "--inject",
            help="Make the provider wrong: swap-kv, stride, run-long, short, early-done or no-write.",
            show_default="sound",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            help="Force the provider's store kernel (env: ZCOPY_KERNEL).",
            show_default="the best here",
        ),
    ] = None,
    deadline: Annotated[
        int | None,
        typer.Option(
            "--deadline",
            metavar="DURATION",
            parser=duration,
            help="A provider that is silent for so long has failed.",
            show_default="60s",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the order of rounds, nonces and scatter.")] = 1,
    engine: Annotated[
        str,
        typer.Option("--engine", help="none; or llama: a real llama.cpp decodes on (docs/handoff-llama.md)."),
    ] = "none",
    gguf: Annotated[
        str | None,
        typer.Option(
            "--gguf", metavar="FILE", help="llama: the model.", show_default="random weights for --model"
        ),
    ] = None,
    forge: Annotated[
        bool, typer.Option("--forge", help="llama: a state file of our own making, in place of a prefill.")
    ] = False,
    provider_url: Annotated[
        str | None,
        typer.Option("--provider-url", metavar="URL", help="llama: a server that runs and prefills."),
    ] = None,
    decoder_url: Annotated[
        str | None,
        typer.Option("--decoder-url", metavar="URL", help="llama: a server that runs and decodes."),
    ] = None,
    n_predict: Annotated[
        int, typer.Option("--n-predict", metavar="N", help="llama: tokens that are compared.")
    ] = 8,
    threads: Annotated[int, typer.Option("--threads", metavar="N", help="llama: of each server.")] = 2,
    plan: PlanOption = False,
    format: FormatOption = None,
    json: JsonOption = False,
    output: OutputOption = None,
    label: LabelOption = None,
    cpus: CpusOption = None,
    wait: WaitOption = None,
    no_lock: NoLockOption = False,
    db: DbOption = None,
    no_save: NoSaveOption = False,
    require_save: RequireSaveOption = False,
    require_quiet: RequireQuietOption = False,
) -> int:
    """What handing a prefill's KV cache to another process costs.

    A provider process writes K and V rows; a decoder takes their cells over: by a shared region (no bytes move), by
    a sequence-state file, by a bounce buffer, or through a pipe. Every repetition is verified byte for byte.
    """
    app = app_context.app(ctx)
    if connect is not None:
        return serve_decoder(app, connect, provider, kernel)
    with Results.open(app, format, json, output) as results:
        # Late: help must load neither the native module nor the probe.
        from zcopy.cli.handoff_tables import plan_table
        from zcopy.host import Host
        from zcopy.probes.handoff import params as p

        own = (layers, kv_heads, head_dim, head_dim_v)
        words = EngineWords(engine, model, gguf, forge, provider_url, decoder_url, n_predict, threads)
        words.check()
        routes = choose(route, p.ROUTES, "--route") or words.routes
        params = p.HandoffParams(
            cache=cache_of(geometry_of(app, gguf or model, own), type_k, type_v, v_trans, (n_rot_k, n_rot_v)),
            lengths=p.lengths(
                split_numbers(cells or [words.cells or _CELLS], "--cells"), split_numbers(ctx_cells, "--ctx")
            ),
            routes=routes,
            buffers=buffers_of(buffer, Host.read()) or ("memfd",),
            regions=choose(region, p.REGIONS, "--region") or words.regions,
            populate=choose(populate, p.POPULATES, "--populate"),
            passing=choose(passing, p.PASSES, "--pass") or ("scm",),
            scatter=scatter,
            reps=p.REPS if reps is None else reps,
            patience_ns=p.PATIENCE_NS if reps is None else None,
            state_dirs=state_dirs_of(app, state_dir, routes),
            provider=one_of(provider, p.PROVIDERS, "--provider"),
            provider_cmd=command_words(provider_cmd) if provider_cmd is not None else (),
            listen=str(app.settings.cwd / listen) if listen else "",
            inject=one_of(inject, p.INJECTS, "--inject") if inject else "",
            kernel=kernel_of(kernel or app.environ.get("ZCOPY_KERNEL", "")),
            deadline_ns=words.deadline_ns if deadline is None else deadline,
            seed=seed,
        )
        probe = words.probe(app, params, named_by_user(params, route, buffer, state_dir))
        if plan:
            return show_plan(results, probe, plan_table)
        common = Common(label, cpus, wait, no_lock, db, no_save, require_save, require_quiet)
        return measure(app, results, probe, common, words.report)
