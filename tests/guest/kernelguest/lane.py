"""Several guests side by side: one loop, one exit code."""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from .errors import GuestError
from .guest import Guest
from .kernels import Kernel
from .request import Request, Share
from .streams import Pump, outputs, pump

GUEST_FAILED = 125
LOG_LINES = 60


def say(text: str) -> None:
    print(f"guest: {text}", file=sys.stderr, flush=True)


def with_out(request: Request, series: str, folder: Path) -> Request:
    """Every guest has an output folder of its own, shared under its own path."""
    out = (request.out or folder / "out") / series
    out.mkdir(parents=True, exist_ok=True)
    shares = (*request.shares, Share(out.resolve(), writable=True))
    return replace(request, out=out.resolve(), shares=shares)


def end(guest: Guest, pipes: Pump) -> None:
    """Without QEMU its pipes end, and then all that was in them has been read."""
    guest.close()
    while guest.unread:
        pipes.turn(0.1)


def blame(guest: Guest, error: GuestError) -> int:
    """The kernel's last lines, then one line that says what went wrong."""
    lines = guest.kernel_log().splitlines()[-LOG_LINES:]
    if lines:
        print("\n".join(lines), file=sys.stderr)
    say(f"{guest.kernel.series}: {error}")
    return GUEST_FAILED


def settle(guest: Guest, pipes: Pump) -> int | None:
    """The guest's exit code, or None while it runs."""
    try:
        if not guest.ended:
            guest.check()
            return None
        end(guest, pipes)
        return guest.exit_code()
    except GuestError as error:
        end(guest, pipes)
        return blame(guest, error)


def watch(guests: Sequence[Guest], pipes: Pump) -> dict[str, int]:
    """Codes by series; all that the guests wrote has been passed on by then."""
    codes: dict[str, int] = {}
    while len(codes) < len(guests) or pipes.busy:
        pipes.turn(0.1)
        for guest in guests:
            series = guest.kernel.series
            code = None if series in codes else settle(guest, pipes)
            if code is not None:
                codes[series] = code
    return codes


def worst(codes: Sequence[int]) -> int:
    """A guest that failed says nothing about the command, so it comes first."""
    return GUEST_FAILED if GUEST_FAILED in codes else max(codes)


def run(kernels: Sequence[Kernel], request: Request, verbose: bool) -> int:
    with ExitStack() as stack:
        pipes = stack.enter_context(pump())
        guests = []
        for kernel in kernels:
            made = tempfile.TemporaryDirectory(prefix="zcopy-guest-")
            folder = Path(stack.enter_context(made))
            asked = with_out(request, kernel.series, folder)
            guest = Guest(kernel, asked, folder)
            stack.callback(guest.close)
            label = kernel.series if len(kernels) > 1 else None
            guest.start(pipes, outputs(label))
            guests.append(guest)
        codes = watch(guests, pipes)
    if verbose:
        for guest in guests:
            say(guest.times())
    return worst(list(codes.values()))
