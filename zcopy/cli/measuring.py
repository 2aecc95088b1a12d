"""What every measuring command does around its probe: settings, recorder, session, plan, exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import zcopy
from zcopy.cli.context import AppContext
from zcopy.cli.locking import lock_settings
from zcopy.cli.output import Results
from zcopy.errors import Exit, Stopped, ZcopyError
from zcopy.model import Json, Run, Status, Warning_
from zcopy.render import Format
from zcopy.table import Report, Table

if TYPE_CHECKING:
    from zcopy.probes.base import Plan, Probe
    from zcopy.runner import Session


@dataclass(frozen=True, slots=True)
class Common:
    """The options that all measuring commands share."""

    label: str | None
    cpus: str | None
    wait: int | None
    no_lock: bool
    db: Path | None
    no_save: bool
    require_save: bool
    require_quiet: bool


def measure(
    app: AppContext, results: Results, probe: Probe, common: Common, report: Callable[[Run], Report]
) -> int:
    """Runs the probe, tells the run's warnings, writes its report; the exit code."""
    from zcopy.runner import run

    session = _session(app, common)
    try:
        done = run(probe, session)
    except (ZcopyError, Stopped) as end:
        if results.format is Format.JSON:  # whoever reads JSON gets a document, whatever happened
            results.emit(report(_unmeasured(probe, session, end)), partial=True)
        raise
    return conclude(app, results, done, common.require_save and not common.no_save, report)


def conclude(
    app: AppContext, results: Results, done: Run, require_save: bool, report: Callable[[Run], Report]
) -> int:
    """Tells the warnings of a run that has ended and writes its report; the exit code."""
    if require_save and not done.saved and done.exit == Exit.OK:
        done = done.with_(exit=int(Exit.OUTPUT))
    app.progress.clear()
    for warning in done.warnings:
        app.warn(warning.text)
    results.emit(report(done), partial=done.exit in (Exit.INTERRUPTED, Exit.TERMINATED))
    if done.saved and app.settings.stderr_tty:
        app.note(f"saved as {done.id} (zcopy history show @last)")
    return done.exit


def _unmeasured(probe: Probe, session: Session, end: ZcopyError | Stopped) -> Run:
    """The run that never got to its first case: no rows, and the reason as a warning."""
    stopped = isinstance(end, Stopped)
    text = "stopped before the first case" if isinstance(end, Stopped) else end.message
    known = {Exit.REFUSED: Status.REFUSED, Exit.SKIPPED: Status.SKIPPED}
    return Run(
        id=session.run_id,
        command=probe.command,
        started=session.started,
        version=session.version,
        argv=session.argv,
        params=probe.params(),
        warnings=(*session.warnings, Warning_("not-measured", text)),
        status=Status.INTERRUPTED if stopped else known.get(end.exit, Status.FAILED),
        exit=int(end.exit),
    )


def _session(app: AppContext, common: Common) -> Session:
    from zcopy.history.ids import new_id
    from zcopy.history.location import history_settings
    from zcopy.history.recorder import NullRecorder, Recorder
    from zcopy.host.cpulist import parse_cpus
    from zcopy.locks import Clock, lock_disabled
    from zcopy.runner import Session

    settings = history_settings(app.db_path(common.db), app.environ)
    return Session(
        run_id=new_id(app.now(), app.random.getrandbits),
        started=app.timestamp(),
        version=zcopy.__version__,
        argv=app.settings.argv,
        environ=app.environ,
        keeper=NullRecorder() if common.no_save else Recorder(settings),
        clock=Clock(app.ticks, lambda: int(app.now().timestamp() * 1e9)),
        locks=lock_settings(app),
        progress=app.progress,
        notify=app.note,
        label=common.label or "",
        lock=not (common.no_lock or lock_disabled(app.environ.get("ZCOPY_NO_LOCK"))),
        wait_ns=common.wait,
        cpus=parse_cpus(common.cpus) if common.cpus else (),
        require_quiet=common.require_quiet,
    )


def show_plan(results: Results, probe: Probe, table: Callable[[Plan], Table]) -> int:
    """Says what the probe would do; measures and saves nothing."""
    from zcopy.host import Host

    plan = probe.plan(Host.read())
    shown = table(plan)
    document: dict[str, Json] = {
        "schema": "zcopy.plan/1",
        "command": probe.command,
        "params": dict(probe.params()),
        "cases": [dict(case) for case in plan.cases],
        "memory_bytes": plan.memory,
        "disk_bytes": plan.disk,
        "duration_ns": plan.duration_ns,
    }
    results.emit(Report((shown,), lambda: document))
    return Exit.OK
