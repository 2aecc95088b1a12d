"""The command line: words in, a Request out, signals turned into an exit."""

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from . import kernels, lane
from .errors import GuestError
from .request import MODULES, Request, Share

EPILOG = """The guest's root is this machine's, under an overlay in memory: every
path can be written and nothing of it is kept, but for --out and --share DIR:rw.
Exit: the command's own code (128 + N when signal N ended it; with two kernels
the worst); 125 when the guest itself failed; 2 for wrong usage."""


def share(text: str) -> Share:
    folder, colon, mode = text.rpartition(":")
    if not colon or mode not in ("ro", "rw"):
        folder, mode = text, "ro"
    if not Path(folder).is_dir():
        raise argparse.ArgumentTypeError(f"{folder} is not a folder")
    return Share(Path(folder).resolve(), writable=mode == "rw")


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text} is not KEY=VALUE")
    return key, value


def series(text: str) -> str:
    if not all(part.isdecimal() for part in text.split(".")) or "." not in text:
        raise argparse.ArgumentTypeError(f"{text} is not a series such as 6.12")
    return text


def parser() -> argparse.ArgumentParser:
    this = argparse.ArgumentParser(prog="run.py", description=__doc__, epilog=EPILOG)
    add = this.add_argument
    add("--kernel", action="append", type=series, required=True, metavar="SERIES")
    add("--fetch-only", action="store_true", help="fill the cache, boot nothing")
    add("--memory", type=int, default=2048, metavar="MIB")
    add("--cpus", type=int, default=2, metavar="N")
    add("--timeout", type=float, default=1800, metavar="S", help="from power-on")
    add("--boot-deadline", type=float, default=300, metavar="S")
    add("--module", action="append", default=[], help="one more: 'NAME ARG=…'")
    add("--modules", default=",".join(MODULES), help="default: %(default)s")
    add("--env", action="append", default=[], type=pair, metavar="KEY=VALUE")
    add("--cwd", type=Path, default=Path.cwd(), metavar="DIR")
    add("--share", action="append", default=[], type=share, metavar="DIR[:rw]")
    add("--out", type=Path, metavar="DIR", help="keeps DIR/SERIES of each guest")
    add("--monitor", type=Path, metavar="SOCKET", help="QEMU's monitor; one kernel")
    add("--verbose", "-v", action="store_true", help="say when each step was reached")
    add("command", nargs="*", metavar="CMD")
    return this


def checked(argv: Sequence[str]) -> argparse.Namespace:
    this = parser()
    options = this.parse_args(argv)
    options.kernel = list(dict.fromkeys(options.kernel))
    if not options.command and not options.fetch_only:
        this.error("no command")
    if options.monitor and len(options.kernel) > 1:
        this.error("--monitor needs exactly one --kernel")
    return options


def request(options: argparse.Namespace) -> Request:
    return Request(
        command=options.command,
        cwd=options.cwd.absolute(),
        env=dict(options.env),
        modules=(*filter(None, options.modules.split(",")), *options.module),
        shares=options.share,
        out=options.out,
        monitor=options.monitor,
        memory=options.memory,
        cpus=options.cpus,
        timeout=options.timeout,
        boot_deadline=options.boot_deadline,
    )


def stop(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwinds everything, which ends the guests, and exits as a shell would say."""
    raise SystemExit(128 + number)


def main(argv: Sequence[str]) -> int:
    options = checked(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        found = [kernels.kernel(one) for one in options.kernel]
        if options.fetch_only:
            return 0
        return lane.run(found, request(options), options.verbose)
    except GuestError as error:
        lane.say(str(error))
        return lane.GUEST_FAILED
