"""Taking device locks: several at once in sorted order, all or none, inside an outer hold or not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from zcopy.errors import BusyError
from zcopy.locks.holders import look
from zcopy.locks.lockfile import LockFile, open_lock
from zcopy.locks.names import resolve
from zcopy.locks.nesting import VARIABLE, Lineage, Token, handed_down, new_token, parse_tokens
from zcopy.locks.notes import Note, clear_note, write_note
from zcopy.locks.paths import LockFolder, Place, inner_place, lock_folder, place
from zcopy.locks.procfs import FileId, flocks
from zcopy.locks.settings import Clock, LockSettings
from zcopy.locks.waiting import Patience, stand_in_line
from zcopy.model import LockState, Warning_
from zcopy.units import duration_text


@dataclass(frozen=True, slots=True)
class _Grip:
    """A lock that is ours: its file, whether it is an inner one, and where those inside our hold queue."""

    lock: LockFile
    nested: bool
    inner: Path

    def release(self) -> None:
        if self.lock.fd < 0:
            return
        clear_note(self.lock)
        _remove(self.inner)
        if self.nested and not any(line.waiting for line in flocks(self.lock.id)):
            # Should somebody just have come, in_place() sends them to a new one.
            _remove(self.lock.place.path)
        self.lock.close()


def _remove(inner: Path) -> None:
    with contextlib.suppress(OSError):
        inner.unlink()


class Held:
    """Locks that are held until `release` or the end of the `with` block.

    Attributes:
        states: one per device, sorted by name: `held`, `nested` inside an outer hold, or `none`.
        environ: what the children's environment needs so that they are inside this hold.
        warnings: what the run's reader must know about the locks.
    """

    def __init__(
        self,
        states: Sequence[LockState],
        environ: Mapping[str, str],
        warnings: Sequence[Warning_] = (),
        grips: Sequence[_Grip] = (),
    ) -> None:
        self.states = tuple(states)
        self.environ = dict(environ)
        self.warnings = tuple(warnings)
        self._grips = tuple(grips)
        self._owner = os.getpid()

    @property
    def fds(self) -> tuple[int, ...]:
        """The locked files: a child that inherits them keeps the lock should this process be killed."""
        return tuple(grip.lock.fd for grip in self._grips if grip.lock.fd >= 0)

    def release(self) -> None:
        """Give the locks back; safe to call again, and without effect in a forked copy of the holder."""
        if self._owner != os.getpid():
            return
        for grip in reversed(self._grips):
            grip.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def acquire(
    devices: Iterable[str],
    settings: LockSettings,
    *,
    wait_ns: int | None,
    label: str,
    notify: Callable[[str], None],
    clock: Clock,
) -> Held:
    """Lock all of `devices` or none.

    Args:
        devices: names or aliases, in any order.
        settings: where the locks are, and the outer hold's token.
        wait_ns: the deadline in ns for all of them together; None waits for ever, 0 only tries.
        label: what the run is, for those who wait for it.
        notify: is called with one line about the holder soon after a wait begins, and again regularly.
        clock: the clocks to use.

    Raises:
        UsageError: a name, or a path in the settings, is wrong.
        RefusedError: a lock file or folder is not safe or not usable; at once, never after a wait.
        BusyError: the deadline is over, or to wait could deadlock; names the holder.
    """
    names = resolve(devices, settings.aliases)
    folder = lock_folder(settings)
    outer = parse_tokens(settings.token)
    request = _Request(
        Lineage(settings, folder, outer),
        Patience.from_now(clock, wait_ns, settings),
        new_token(names),
        label,
        notify,
    )
    groups = _by_file([place(name, settings, folder) for name in names])
    with ExitStack() as undo:
        grips = []
        for spot in groups.values():
            grip = request.take(spot[0])
            undo.callback(grip.release)
            grips.append(grip)
        undo.pop_all()
    states = [
        LockState(spot.device, "nested" if grip.nested else "held")
        for spots, grip in zip(groups.values(), grips, strict=True)
        for spot in spots
    ]
    return Held(
        sorted(states, key=lambda state: state.device),
        {VARIABLE: handed_down(outer, request.token)},
        _warnings(folder),
        grips,
    )


def no_locks(devices: Iterable[str], settings: LockSettings) -> Held:
    """What --no-lock gets: nothing is locked, the states say `none`, the outer hold is passed on as it is."""
    names = resolve(devices, settings.aliases)
    environ = {} if settings.token is None else {VARIABLE: settings.token}
    return Held([LockState(name, "none") for name in names], environ)


def _warnings(folder: LockFolder) -> tuple[Warning_, ...]:
    return () if folder.caution is None else (Warning_("lock-folder", folder.caution),)


def _by_file(spots: Sequence[Place]) -> dict[FileId, list[Place]]:
    """The places in the order to lock them, those that share a file together; raises like open_lock."""
    groups: dict[FileId, list[Place]] = {}
    for spot in sorted(spots, key=lambda spot: (spot.rank, spot.device)):
        with contextlib.closing(open_lock(spot)) as lock:
            groups.setdefault(lock.id, []).append(spot)
    return groups


@dataclass(frozen=True, slots=True)
class _Front:
    """The lock file to take, and the held ones around it with the names of the holds they stand for."""

    lock: LockFile
    around: tuple[tuple[LockFile, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.around)


@dataclass(frozen=True, slots=True)
class _Request:
    """One call of `acquire`."""

    lineage: Lineage
    patience: Patience
    token: Token
    label: str
    notify: Callable[[str], None]

    def take(self, spot: Place) -> _Grip:
        """Lock one device: its own file, or the innermost of the holds around us."""
        while True:
            with ExitStack() as cleanup:
                front = self._front(spot, cleanup)
                if not front.lock.locked:
                    self._wait(front)
                cleanup.callback(front.lock.close)
                if self._still_right(front):
                    write_note(front.lock, self._note())
                    cleanup.pop_all()
                    for lock, _ in front.around:
                        lock.close()
                    inner = inner_place(spot, self.lineage.folder, self.token.digest)
                    return _Grip(front.lock, nested=bool(front.around), inner=inner.path)

    def _front(self, spot: Place, cleanup: ExitStack) -> _Front:
        around: list[tuple[LockFile, str]] = []
        while True:
            lock = open_lock(spot)
            name = None if lock.try_lock() else self.lineage.inner_name(lock)
            if name is None:
                return _Front(lock, tuple(around))
            cleanup.callback(lock.close)
            around.append((lock, name))
            spot = inner_place(spot, self.lineage.folder, name)

    def _still_right(self, front: _Front) -> bool:
        """Whether the file was not removed, nor a hold around us ended, while we waited."""
        return front.lock.in_place() and all(
            not lock.try_lock() and self.lineage.inner_name(lock) == name for lock, name in front.around
        )

    def _note(self) -> Note:
        return Note(self.token.digest, os.getpid(), self.patience.clock.wall_ns(), self.label)

    def _wait(self, front: _Front) -> None:
        """Wait for a busy lock. Raises BusyError; the lock file is then no longer ours."""
        spot = front.lock.place
        later = self.lineage.later_device(spot, front.names)
        if later is not None:
            raise BusyError(
                f"{spot.device} is busy ({self._holder(front.lock)}), and to wait for it while {later} is "
                f"held around this run could deadlock",
                f"hold both from the start: zcopy hold {spot.device} {later} -- ...",
            )
        if self.patience.left_ns() > 0 and stand_in_line(front.lock, self.patience, self._notice(spot)):
            return
        waited = self.patience.wait_ns
        after = f" after {duration_text(waited)}" if waited else ""
        raise BusyError(f"{spot.device} is busy{after}: {self._holder_of(spot)}", "--wait 10m waits longer")

    def _notice(self, spot: Place) -> Callable[[int | None], None]:
        def say(waited_ns: int | None) -> None:
            how_long = "" if waited_ns is None else f" ({duration_text(waited_ns)} so far)"
            self.notify(f"waiting for {spot.device}{how_long}: {self._holder_of(spot)}")

        return say

    def _holder_of(self, spot: Place) -> str:
        with contextlib.closing(open_lock(spot)) as lock:
            return self._holder(lock)

    def _holder(self, lock: LockFile) -> str:
        holder = look(lock, busy=True).holder
        return (
            holder.text(self.patience.clock.wall_ns()) if holder else "its holder has just left or is hidden"
        )
