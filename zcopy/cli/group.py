"""Typer below the entry point: commands imported when called, plain help, errors as ours."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import Any, Final, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as build

import zcopy
from zcopy.cli.commands import COMMANDS, Entry, NeedsCommand
from zcopy.cli.context import AppContext
from zcopy.cli.examples import examples, fitted
from zcopy.errors import Exit, Stopped, UsageError, ZcopyError

_HELP_COLUMNS: Final = (40, 100)
_NAMES: Final = 30  # columns of options and what they take, where there is room
_INDENT: Final = 2  # of what stands below a heading
_F = TypeVar("_F", bound=Callable[..., Any])


class _Fitting:
    """Help that fits a narrow terminal too: a slimmer column of names, and examples that are broken."""

    epilog: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        most = min(_NAMES, formatter.width * 2 // 5)
        formatter.write_dl = partial(formatter.write_dl, col_max=most)
        super().format_help(ctx, formatter)  # type: ignore[misc]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.epilog:
            formatter.write_paragraph()
            indent = " " * _INDENT
            for line in fitted(self.epilog, formatter.width - _INDENT):
                formatter.write(f"{indent}{line}\n")


class Command(_Fitting, TyperCommand):
    """One command."""


class App(typer.Typer):
    """A Typer of such commands."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[_F], _F]:
        return super().command(*args, **{"cls": Command, **kwargs})


class Group(_Fitting, TyperGroup):
    """A group that shows its help when it is called without a command, and knows what was nearly typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            raise NeedsCommand(ctx.command_path, ctx.get_help())
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, *rest = args
        command = self.get_command(ctx, name)
        if command is None:
            near = get_close_matches(name, self.list_commands(ctx))
            ctx.fail(f"no command {name!r}" + (f", did you mean {near[0]}?" if near else ""))
        return name, command, rest


class Root(Group):
    """`zcopy` itself: its commands are `COMMANDS`, each imported when it is asked for by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = next((entry for entry in COMMANDS if entry.name == cmd_name), None)
        return None if entry is None else load(entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in COMMANDS])


def new_app(help: str | None = None) -> App:
    """A Typer for a command module: plain help (rich would cost 60 ms and swallow ``[text]``).

    With `help` it is a group, whatever the number of its commands; without, the one command registered in it.
    """
    app = App(cls=Group, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    if help is not None:
        app.callback(help=help)(_nothing)
    return app


def load(entry: Entry) -> Any:
    """Import a command's module and build what it exposes: the function `command`, or `app`."""
    try:
        module = import_module(entry.module)
    except ModuleNotFoundError as error:
        if error.name != entry.module:
            raise
        raise ZcopyError(f"this build has no {entry.name} command: {entry.module} is missing") from error
    if function := getattr(module, "command", None):
        app = new_app()
        app.command(entry.name, epilog=getattr(module, "EPILOG", None))(function)
    else:
        app = module.app
    command = build(app)
    command.name = entry.name
    return command


def invoke(app: AppContext) -> int:
    """Run the command that argv names and return its exit code.

    Raises UsageError for whatever typer rejects; everything else passes through.
    """
    root = build(_root())
    low, high = _HELP_COLUMNS
    columns = min(max(app.settings.look.width or 80, low), high)
    try:
        with root.make_context("zcopy", list(app.settings.argv), obj=app, terminal_width=columns) as ctx:
            result = root.invoke(ctx)
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort as error:
        raise Stopped(Exit.INTERRUPTED) from error
    except typer.TyperException as error:
        _refuse(error)
    return int(result or Exit.OK)


def _refuse(error: typer.TyperException) -> NoReturn:
    # Every usage error of typer carries the context it arose in; its texts are its own and only passed on.
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "zcopy"
    raise UsageError(error.format_message(), f"try '{path} --help'") from error


def _root() -> typer.Typer:
    app = typer.Typer(cls=Root, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    app.callback(
        help="What moves, what it costs and what stays on boxes with one DRAM.",
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=examples("zcopy handoff --model tiny", "zcopy doctor --json"),
    )(_options)
    return app


def _options(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    if version:
        typer.echo(zcopy.__version__)
        raise typer.Exit


def _nothing() -> None:
    """The callback that makes a Typer a group."""
