"""`zcopy fill`: the options, as values of the probe's parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from zcopy.cli.context import app as app_of
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
    examples,
    split_list,
    split_numbers,
)  # fmt: skip
from zcopy.cli.output import Results
from zcopy.errors import UsageError

if TYPE_CHECKING:
    from zcopy.probes.fill.params import FillParams

EPILOG = examples(
    "zcopy fill                                   # memfd against ordinary memory, four sizes",
    "zcopy fill --buffer udmabuf,dma-heap:system --size 1MiB,64MiB",
    "zcopy fill --buffer udmabuf --size 64MiB --range 64,4KiB,1MiB --sync clean",
    "zcopy fill --buffer anon,anon-thp,memfd --populate all --method memcpy",
    "zcopy fill --buffer all --method memcpy,nt --threads 1,2 --json",
)

_SIZES = "64KiB,1MiB,16MiB,256MiB"


def command(
    ctx: typer.Context,
    buffer: Annotated[
        list[str] | None,
        typer.Option(
            "--buffer",
            metavar="LIST",
            help="Kinds of memory, or all; zcopy doctor lists them.",
            show_default="memfd",
        ),
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", metavar="LIST", help="Bytes to fill.", show_default=_SIZES)
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="LIST",
            help="memcpy; nt: streaming stores; movsb; memset: a constant; auto: the fastest here; or all.",
            show_default="memcpy,nt,movsb,auto",
        ),
    ] = None,
    isa: Annotated[
        str, typer.Option("--isa", help="Force the instruction set of nt.", show_default="the best here")
    ] = "",
    sync: Annotated[
        list[str] | None,
        typer.Option(
            "--sync",
            metavar="LIST",
            help="none; on dma-bufs clean: to the device only; full: read and write, twice; flush: by line; or all.",
            show_default="none, clean and full",
        ),
    ] = None,
    range_: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="LIST",
            help="Fill and sync only so many bytes of each buffer, beside all of it.",
            show_default="all of it",
        ),
    ] = None,
    populate: Annotated[
        list[str] | None,
        typer.Option(
            "--populate",
            metavar="LIST",
            help="none; prefault: the kernel brings all pages in before the first touch; or all.",
            show_default="none",
        ),
    ] = None,
    threads: Annotated[
        list[str] | None,
        typer.Option("--threads", metavar="LIST", help="Threads that fill.", show_default="1"),
    ] = None,
    reps: Annotated[int, typer.Option("--reps", metavar="N", help="Timed repetitions of each case.")] = 7,
    seed: Annotated[int, typer.Option("--seed", help="Of the order of rounds and the sources' bytes.")] = 1,
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
    """How fast each kind of buffer on this box can be filled, and what the cache maintenance costs.

    Every case is interleaved with a plain memcpy of the same size into ordinary memory, and verified through a second
    mapping. Making a buffer and meeting its pages are phases of their own.
    """
    app = app_of(ctx)
    with Results.open(app, format, json, output) as results:
        # Late: help must load neither the native module nor the probe.
        from zcopy.cli.fill_tables import fill_report, plan_table
        from zcopy.cli.handoff_params import buffers_of
        from zcopy.host import Host
        from zcopy.host.cpulist import parse_cpus
        from zcopy.probes.fill import params as p
        from zcopy.probes.fill.probe import FillProbe

        params = p.FillParams(
            buffers=buffers_of(buffer, Host.read()) or ("memfd",),
            sizes=_sizes(size or [_SIZES], "--size"),
            methods=choose(method, p.METHODS, "--method") or ("memcpy", "nt", "movsb", "auto"),
            isa=_isa(isa),
            syncs=choose(sync, p.SYNCS, "--sync"),
            ranges=_sizes(range_, "--range"),
            populate=choose(populate, p.POPULATES, "--populate") or ("none",),
            threads=split_numbers(threads or ["1"], "--threads"),
            cpus=tuple(sorted(parse_cpus(cpus))) if cpus else (),
            reps=reps,
            seed=seed,
        )
        probe = FillProbe(params, _named(params, buffer))
        if plan:
            return show_plan(results, probe, plan_table)
        common = Common(label, cpus, wait, no_lock, db, no_save, require_save, require_quiet)
        return measure(app, results, probe, common, fill_report)


def _sizes(words: list[str] | None, option: str) -> tuple[int, ...]:
    from zcopy.units import parse_size

    try:
        return tuple(dict.fromkeys(parse_size(word) for word in split_list(words, option)))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _isa(name: str) -> str:
    from zcopy.native.fill import find_mover

    if name:
        try:
            find_mover("nt", name)
        except ValueError as error:
            raise UsageError(f"--isa {name}: {error}") from error
    return name


def _named(params: FillParams, buffer: list[str] | None) -> list[tuple[str, str]]:
    """What the user asked for by name (not by `all`): each must get an ok row."""
    words = split_list(buffer, "--buffer")
    return [("buffer", each) for each in params.buffers if {*each.split(",")} <= {*words}]
