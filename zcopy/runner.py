"""From a probe to a saved run: locks, host facts, rows as they come, the verdict over all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from zcopy.errors import BusyError, Exit, Stopped
from zcopy.history.recorder import Keeper
from zcopy.host import Host
from zcopy.locks import Clock, Held, LockSettings, acquire, no_locks
from zcopy.model import Json, Row, Run, Status, Warning_, judge
from zcopy.native.build import build_id
from zcopy.probes.base import Context, Probe


@dataclass(frozen=True)
class Session:
    """What a runner is handed by the command line. Nothing here is read by the runner itself from the process."""

    run_id: str
    started: str  # UTC, YYYY-MM-DDTHH:MM:SSZ
    version: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    keeper: Keeper
    clock: Clock
    locks: LockSettings
    progress: Callable[[str, int, int], None]
    notify: Callable[[str], None]
    label: str = ""
    lock: bool = True
    wait_ns: int | None = None
    cpus: tuple[int, ...] = ()
    require_quiet: bool = False
    warnings: list[Warning_] = field(default_factory=list)  # grows while the run goes on


def run(probe: Probe, session: Session) -> Run:
    """Measures and keeps; what was measured before a signal is in the run, whose status is then `interrupted`.

    Raises BusyError for a lock that stays busy or (where asked) a box that is not quiet, UsageError and
    RefusedError for locks that cannot be: in all these cases nothing was measured and nothing is saved.
    """
    if session.cpus:
        _pin(session.cpus)
    devices = probe.devices(Host.read())
    with _locked(probe, devices, session) as held:
        host = Host.read()  # anew: waiting for a lock may have taken hours
        _look_around(host, devices, session)
        begun = _begun(probe, session, host, held)
        session.keeper.begin(begun)
        rows, stopped = _measure(probe, session, host)
        status, code = judge(rows, probe.named(), stopped)
        ended = begun.with_(rows=tuple(rows), status=status, exit=int(code), warnings=tuple(session.warnings))
        try:
            return session.keeper.finish(ended)
        except Stopped:  # all was measured when the signal came: a complete run is kept as such
            return session.keeper.finish(ended)


def _pin(cpus: tuple[int, ...]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        from zcopy.errors import UsageError

        raise UsageError(f"--cpus: {error.strerror}", "zcopy doctor lists the CPUs") from error


def _locked(probe: Probe, devices: tuple[str, ...], session: Session) -> Held:
    if not session.lock:
        session.warnings.append(
            Warning_("no-lock", "measured without device locks: others may have used the box")
        )
        return no_locks(devices, session.locks)
    label = session.label or f"zcopy {probe.command}"
    held = acquire(
        devices, session.locks, wait_ns=session.wait_ns, label=label, notify=session.notify,
        clock=session.clock,
    )  # fmt: skip
    session.warnings.extend(held.warnings)
    return held


def _look_around(host: Host, devices: tuple[str, ...], session: Session) -> None:
    """What makes the box unfit for measuring is a warning of the run, or the end of it."""
    noise = (*host.quiet_warnings(), *host.use_warnings(devices))
    if noise and session.require_quiet:
        raise BusyError(f"the box is not quiet: {noise[0].text}", "--require-quiet asked for it")
    session.warnings.extend(noise)


def _begun(probe: Probe, session: Session, host: Host, held: Held) -> Run:
    label: dict[str, Json] = {"label": session.label} if session.label else {}
    return Run(
        id=session.run_id,
        command=probe.command,
        started=session.started,
        version=session.version,
        argv=session.argv,
        params={**probe.params(), "cpus": list(session.cpus), **label},
        host=host.document(),
        key={"command": probe.command, **host.key(probe.drivers(host)), "helper_build": build_id()},
        locks=held.states,
        warnings=tuple(session.warnings),
        status=Status.INTERRUPTED,
        exit=int(Exit.INTERRUPTED),
    )


def _measure(probe: Probe, session: Session, host: Host) -> tuple[Sequence[Row], Exit | None]:
    """The rows, each kept as soon as it is there, and the exit of the signal that ended it all, if one did."""
    context = Context(
        host=host,
        ticks=session.clock.monotonic_ns,
        progress=session.progress,
        warn=session.warnings.append,
        environ=session.environ,
    )
    rows: list[Row] = []
    measuring = probe.measure(context)
    try:
        for row in measuring:
            rows.append(row)
            session.keeper.row(row)
    except Stopped as stop:
        for row in probe.partial():
            rows.append(row)
            session.keeper.row(row)
        return rows, stop.exit
    finally:
        measuring.close()
    return rows, None
