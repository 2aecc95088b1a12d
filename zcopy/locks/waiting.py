"""Waiting for a lock in the order of arrival, with a deadline, and never in silence."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zcopy.errors import RefusedError
from zcopy.locks.lockfile import LockFile
from zcopy.locks.settings import SECOND_NS, Clock, LockSettings

_LONGEST_NS: Final = 3600 * SECOND_NS  # one look at the clock per hour, if nothing else is due


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, all locks of one request together. `wait_ns` None: for ever; 0: not at all."""

    clock: Clock
    started_ns: int
    wait_ns: int | None
    notice_after_ns: int
    notice_every_ns: int

    @staticmethod
    def from_now(clock: Clock, wait_ns: int | None, settings: LockSettings) -> Patience:
        now = clock.monotonic_ns()
        return Patience(clock, now, wait_ns, settings.notice_after_ns, settings.notice_every_ns)

    def waited_ns(self) -> int:
        return self.clock.monotonic_ns() - self.started_ns

    def left_ns(self) -> int:
        """What is left of the deadline in ns, 0 when it is over."""
        return _LONGEST_NS if self.wait_ns is None else max(0, self.wait_ns - self.waited_ns())


def stand_in_line(lock: LockFile, patience: Patience, notice: Callable[[int | None], None]) -> bool:
    """Wait until `lock` is ours (True) or the deadline is over (False).

    The lock file is handed over: on False, or when anything is raised (a signal handler may, any time), it is
    no longer the caller's, and it will not stay locked. `notice` is called soon after the start with None, and
    then regularly with the ns waited so far. Raises RefusedError when the file system cannot lock.
    """
    line = _Line(lock)
    try:
        line.start()
        due = patience.notice_after_ns
        begun = patience.waited_ns()
        while not line.wait(min(patience.left_ns(), max(0, begun + due - patience.waited_ns()))):
            if patience.left_ns() == 0:
                line.leave()
                return False
            if patience.waited_ns() >= begun + due:
                notice(None if due == patience.notice_after_ns else patience.waited_ns())
                due += patience.notice_every_ns
        line.check()
        return True
    except BaseException:
        line.leave()
        raise


class _Line:
    """A thread that blocks in flock(2): the kernel's queue keeps the order of arrival, polling does not.

    A blocked flock can be neither timed nor taken back from outside, so whoever gives up leaves the file to
    the thread, which unlocks and closes it when its turn comes; if the process ends first, the kernel does.
    """

    def __init__(self, lock: LockFile) -> None:
        self._lock = lock
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._launched = False
        self._left = False
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name=f"lock {lock.place.device}", daemon=True)

    def start(self) -> None:
        self._launched = True
        self._thread.start()

    def wait(self, ns: int) -> bool:
        return self._over.wait(ns / SECOND_NS)

    def check(self) -> None:
        if self._error is not None:
            path = self._lock.place.path
            raise RefusedError(
                f"lock file {path} cannot be locked: {self._error.strerror}",
                "set ZCOPY_LOCK_DIR to a local folder",
            ) from self._error

    def leave(self) -> None:
        with self._guard:
            self._left = True
            if self._over.is_set() or not self._launched:
                self._lock.close()

    def _run(self) -> None:
        # A signal taken by this thread would restart its flock at the end of the queue.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            if not self._left:
                self._lock.lock()
        except OSError as error:
            self._error = error
        with self._guard:
            if self._left:
                self._lock.close()
            self._over.set()
