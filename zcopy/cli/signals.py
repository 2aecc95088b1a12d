"""INT, TERM and HUP end a run in order: the first raises Stopped, later ones insist."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType
from typing import Final

from zcopy.errors import Exit, Stopped

EXITS: Final = {
    signal.SIGINT: Exit.INTERRUPTED,
    signal.SIGTERM: Exit.TERMINATED,
    signal.SIGHUP: Exit.TERMINATED,
}
_SAVING: Final = b"\nzcopy: stopping; once more quits at once and saves nothing\n"


class Stopper:
    """The handler. First signal: Stopped in the main thread. Second: says that cleaning up is under way.
    Third: the process dies of it."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._seen += 1
        if self._seen == 1:
            raise Stopped(EXITS[signal.Signals(number)])
        if self._seen == 2:
            # Not through sys.stderr: the signal may have come in the middle of a write to it.
            with contextlib.suppress(OSError):
                os.write(2, _SAVING)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def install() -> None:
    """Handle INT, TERM and HUP from now on; what the caller had ignored (nohup) stays ignored."""
    stopper = Stopper()
    for number in EXITS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stopper)
