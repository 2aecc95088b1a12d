"""`zcopy handoff`: the options, as values of the probe's parameters."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zcopy.cli import context as app_context
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
    split_list,
    split_numbers,
)  # fmt: skip
from zcopy.cli.output import Results
from zcopy.errors import UsageError

if TYPE_CHECKING:
    from zcopy.cli.context import AppContext
    from zcopy.probes.handoff.geometry import Cache, Geometry
    from zcopy.probes.handoff.params import HandoffParams

EPILOG = examples(
    "zcopy handoff                       # the reference lengths on memfd, shared against the state file",
    "zcopy handoff --model tiny --cells 64 --route all --buffer udmabuf,memfd",
    "zcopy handoff --cells 307 --reps 200 --json -o handoff.json",
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
    reps: Annotated[int, typer.Option("--reps", metavar="N", help="Timed repetitions of each case.")] = 5,
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
    with Results.open(app, format, json, output) as results:
        # Late: help must load neither the native module nor the probe.
        from zcopy.cli.handoff_tables import handoff_report, plan_table
        from zcopy.host import Host
        from zcopy.probes.handoff import params as p
        from zcopy.probes.handoff.probe import HandoffProbe

        buffers = _buffers(buffer, Host.read())
        params = p.HandoffParams(
            cache=_cache(
                _geometry(app, model, (layers, kv_heads, head_dim, head_dim_v)),
                type_k,
                type_v,
                v_trans,
                (n_rot_k, n_rot_v),
            ),
            lengths=p.lengths(split_numbers(cells or [_CELLS], "--cells"), split_numbers(ctx_cells, "--ctx")),
            routes=choose(route, p.ROUTES, "--route") or ("shared", "file"),
            buffers=buffers or ("memfd",),
            regions=choose(region, p.REGIONS, "--region") or p.REGIONS,
            populate=choose(populate, p.POPULATES, "--populate"),
            passing=choose(passing, p.PASSES, "--pass") or ("scm",),
            scatter=scatter,
            reps=reps,
            state_dirs=_state_dirs(app, state_dir),
            provider=_one(provider, p.PROVIDERS, "--provider"),
            provider_cmd=_words(provider_cmd) if provider_cmd is not None else (),
            inject=_one(inject, p.INJECTS, "--inject") if inject else "",
            kernel=_kernel(kernel or app.environ.get("ZCOPY_KERNEL", "")),
            deadline_ns=60 * 10**9 if deadline is None else deadline,
            seed=seed,
        )
        probe = HandoffProbe(params, _named(params, route, buffer, state_dir))
        if plan:
            return show_plan(results, probe, plan_table)
        common = Common(label, cpus, wait, no_lock, db, no_save, require_save, require_quiet)
        return measure(app, results, probe, common, handoff_report)


def _geometry(app: AppContext, model: str, own: tuple[int | None, ...]) -> Geometry:
    from zcopy.probes.handoff.geometry import PRESETS, Geometry
    from zcopy.probes.handoff.model_file import read_geometry

    layers, kv_heads, head_dim, head_dim_v = own
    if any(value is not None for value in own):
        if layers is None or kv_heads is None or head_dim is None:
            raise UsageError("a geometry of your own needs --layers, --kv-heads and --head-dim")
        name = f"{layers}x{kv_heads}x{head_dim}" + (f"/{head_dim_v}" if head_dim_v else "")
        return Geometry.uniform(name, layers, kv_heads, head_dim, head_dim_v or head_dim)
    return PRESETS[model] if model in PRESETS else read_geometry(app.settings.cwd / model)


def _cache(geometry: Geometry, type_k: str, type_v: str, v_trans: bool, rotation: tuple[int, int]) -> Cache:
    from zcopy.probes.handoff.geometry import TYPES, Cache

    names = tuple(TYPES)
    key, value = TYPES[_one(type_k, names, "--type-k")], TYPES[_one(type_v, names, "--type-v")]
    cache = Cache(geometry, key, value, v_trans, rotation)
    assert cache.cell_bytes  # asks every row length: one that is not whole blocks is refused here
    return cache


def _words(command: str) -> tuple[str, ...]:
    """A command line as a shell splits it. Raises UsageError for one that is empty or ends inside quotes."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"--provider-cmd {command!r}: {error}") from error
    if not words or not words[0]:
        raise UsageError("--provider-cmd is empty")
    return words


def _one(word: str, known: tuple[str, ...], option: str) -> str:
    if word not in known:
        raise UsageError(f"{option} {word!r} is none of {', '.join(known)}")
    return word


def _kernel(name: str) -> str:
    from zcopy.native.rows import kernel_names

    return _one(name, tuple(kernel_names()), "--kernel") if name else ""


def _buffers(words: list[str] | None, host: object) -> tuple[str, ...]:
    """The kinds by name; `all` are those that this box could have, with the reason for each it does not."""
    from zcopy.buffers.registry import find, kinds

    names = split_list(words, "--buffer")
    if "all" in names:
        return tuple(kind.name for kind in kinds(host))  # type: ignore[arg-type]
    return tuple(find(name, host).name for name in names)  # type: ignore[arg-type]


def _state_dirs(app: AppContext, words: list[str] | None) -> tuple[str, ...]:
    if words and not all(words):
        raise UsageError("--state-dir is empty")
    if words:
        return tuple(dict.fromkeys(str(app.settings.cwd / Path(word).expanduser()) for word in words))
    from platformdirs import user_cache_path

    return (str(user_cache_path("zcopy")),)


def _named(
    params: HandoffParams, route: list[str] | None, buffer: list[str] | None, state_dir: list[str] | None
) -> list[tuple[str, str]]:
    """What the user asked for by name (not by `all`): each must get an ok row."""
    named = [("route", each) for each in params.routes if each in split_list(route, "--route")]
    named += [("buffer", each) for each in params.buffers if each in split_list(buffer, "--buffer")]
    if state_dir and "file" in params.routes:
        named += [("state_dir", each) for each in params.state_dirs]
    return named
