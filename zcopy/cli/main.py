"""The entry point: signals, streams, dispatch, and every error as one line and an exit code.

To add a command, write `zcopy/cli/NAME.py` and add a line to `COMMANDS` in zcopy/cli/commands.py. The module
is imported only when the command is called. It exposes one of

- ``command``: a function whose parameters are typer's (shared option types are in zcopy/cli/options.py), with
  its help as docstring, and ``EPILOG = examples("zcopy NAME …", "…")`` beside it; or
- ``app = new_app("help")`` (zcopy/cli/group.py): a group, to which it adds ``@app.command(epilog=…)``.

A command takes ``ctx: typer.Context``, gets its AppContext by ``context.app(ctx)``, writes results through
``output.Results`` and nothing else, and returns its exit code (None is 0). It raises ZcopyError for what ends
it; it catches Stopped only to keep what was measured. Help texts are plain ASCII.
"""

from __future__ import annotations

import contextlib
import sys
from typing import NoReturn

import zcopy
from zcopy import limits
from zcopy.cli import signals
from zcopy.cli.commands import NeedsCommand
from zcopy.cli.context import AppContext, Settings, say
from zcopy.cli.streams import ClosedPipe, Streams, guard
from zcopy.cli.terminal import one_line
from zcopy.errors import Exit, Stopped, ZcopyError


def main() -> NoReturn:
    """Run zcopy on this process's argv and leave with its exit code."""
    sys.exit(run())


def run() -> int:
    """The exit code of the whole command line; nothing but SystemExit leaves it."""
    streams = guard()
    app: AppContext | None = None
    try:
        signals.install()
        app = AppContext(Settings.of_process(streams), streams)
        code = _dispatch(app)
        streams.stdout.flush()
    except BaseException as error:
        code = _explain(error, app, streams)
    _flush(streams)
    return code


def _dispatch(app: AppContext) -> int:
    if app.settings.argv == ("--version",):
        app.streams.stdout.write(f"{zcopy.__version__}\n")
        return Exit.OK
    # Late: typer costs 75 ms, which --version does not pay.
    from zcopy.cli.group import invoke

    return invoke(app)


def _explain(error: BaseException, app: AppContext | None, streams: Streams) -> int:
    """Say what ended the command, unless it is clear without, and give the exit code."""
    if app is not None:
        app.progress.clear()
        if app.settings.debug:
            _trace(error, streams)
    if isinstance(error, NeedsCommand):
        say(streams, error.help)
    elif isinstance(error, ZcopyError) and not isinstance(error, ClosedPipe):
        _say(app, streams, f"{error.message} ({error.hint})" if error.hint else error.message)
    elif isinstance(error, Exception) and not isinstance(error, ZcopyError):
        bug = f"unexpected {type(error).__name__}: {error}; set ZCOPY_DEBUG=1 to see where"
        _say(app, streams, limits.shortage(error) or bug)
    return _exit_of(error)


def _exit_of(error: BaseException) -> int:
    match error:
        case ZcopyError() | Stopped():
            return error.exit
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case SystemExit(code=int(code)):
            return code
        case SystemExit(code=None):
            return Exit.OK
    return Exit.FAILED


def _say(app: AppContext | None, streams: Streams, text: str) -> None:
    ascii = app is not None and app.settings.look.ascii
    say(streams, f"zcopy: error: {one_line(text, ascii)}")


def _trace(error: BaseException, streams: Streams) -> None:
    import traceback

    say(streams, "".join(traceback.format_exception(error)).rstrip())


def _flush(streams: Streams) -> None:
    """Write what is still buffered on the way out of an error; a second failure has nothing to add."""
    with contextlib.suppress(ZcopyError):
        streams.stdout.flush()
