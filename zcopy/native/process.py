"""`Process`: a peer's process and all that it started, from its start to its end."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from zcopy import limits
from zcopy.native.calls import failed

_GRACE_S: Final = 5.0  # once told to go a process has this long to end by itself
_LIMITS: Final = {signal.SIGXFSZ: limits.FILE_SIZE, signal.SIGXCPU: limits.CPU_TIME}
_EPITAPH_S: Final = 0.2  # a process that has closed its socket takes a moment to be seen as ended


class Process:
    """Owns a child in a process group of its own until `end`; its standard streams lead nowhere, or `stderr` there."""

    def __init__(
        self,
        what: str,
        command: Sequence[str],
        environ: Mapping[str, str],
        fds: Sequence[int],
        stderr: int = subprocess.DEVNULL,
    ) -> None:
        """Starts `command`, called `what` in errors, with `fds` under the same numbers. Raises MeasurementError."""
        nowhere = subprocess.DEVNULL
        try:
            self._child = subprocess.Popen(
                command,
                stdin=nowhere,
                stdout=nowhere,
                stderr=stderr,
                env=environ,
                pass_fds=fds,
                process_group=0,
            )
        except OSError as error:
            hint = str(limits.PROCESSES) if error.errno == errno.EAGAIN else ""
            raise failed(f"cannot start {what} {command[0]}", error, hint) from error

    @property
    def pid(self) -> int:
        return self._child.pid

    def end(self, *, kill: bool) -> None:
        """Reaps the process, after a moment to end by itself or (`kill`) at once. Idempotent."""
        try:
            if not kill:
                self._child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if self._child.returncode is None:  # not reaped: the group's number is still its own
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._child.pid, signal.SIGKILL)
                self._child.wait()

    def wait(self) -> int:
        """Waits for it to end by itself; its exit code, negative for a signal's number."""
        return self._child.wait()

    def epitaph(self) -> str:
        """How it ended, for an error message about its silence."""
        try:
            code = self._child.wait(_EPITAPH_S)
        except subprocess.TimeoutExpired:
            return ": it has closed its socket"
        return f" ({_signal_name(-code)})" if code < 0 else f" (exit code {code})"


def _signal_name(number: int) -> str:
    try:
        known = signal.Signals(number)
    except ValueError:  # a real-time signal
        return f"killed by signal {number}"
    return ", ".join((f"killed by {known.name}", *([str(_LIMITS[known])] if known in _LIMITS else [])))
