"""Who may import whom, and who may speak to the outside: ARCHITECTURE.md's layers, walked file by file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import zcopy

PACKAGE = Path(zcopy.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "build" not in path.parts)

# Part of zcopy → the other parts it may import. A part is a module or folder directly in zcopy/.
VALUES = frozenset(("errors", "units", "stats", "model", "limits"))
ALLOWED: dict[str, frozenset[str]] = {
    "__init__": frozenset(),
    "__main__": frozenset(("cli",)),
    "errors": frozenset(),
    "units": frozenset(),
    "stats": frozenset(),
    "limits": frozenset(("units",)),
    "draft": frozenset(),
    "model": frozenset(("errors", "units", "stats")),
    "config": frozenset(("errors", "limits", "draft")),
    "host": VALUES,
    "native": VALUES,
    "buffers": VALUES | {"native", "host"},
    "seqstate": VALUES,
    "ingest": VALUES,
    "engines": VALUES | {"native"},
    "probes": VALUES | {"engines", "buffers", "native", "host"},
    "locks": VALUES | {"host"},
    "history": VALUES,
    "doctor": VALUES | {"buffers", "host", "locks", "history"},
    "checks": VALUES | {"host"},
    "runner": VALUES | {"probes", "buffers", "native", "host", "locks", "history", "checks"},
    "compare": VALUES,
    "table": VALUES | {"compare"},
    "render": VALUES | {"compare", "table"},
}

# Module of others → where it may be imported at all.
PLACES = {
    "cffi": ("native/",),
    "typer": ("cli/",),
    "rich": ("cli/", "render/text.py"),
    "sqlite3": ("history/",),
    "tomli_w": ("config.py",),
}
# Never at module level: each costs every command its import, or may be missing.
LATE = frozenset(("numpy", "platformdirs", "tomli_w", "gguf", "safetensors", "xllamacpp"))

# Below cli: printing, argv, the environment, the time of day.
FORBIDDEN = frozenset(
    (
        "print", "input", "sys.argv", "sys.stdout", "sys.stderr", "sys.stdin", "os.environ", "os.environb",
        "os.getenv", "os.putenv", "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime",
        "time.asctime", "time.strftime", "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
        "Path.home", "os.path.expanduser",
    )
)  # fmt: skip


# Started as processes of their own, with arguments of their own: they import nothing of ours.
PROGRAMS = frozenset(("engines/llama/serve.py",))


class Import(NamedTuple):
    module: str
    line: int
    late: bool


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, package: str, late: bool = False) -> Iterator[Import]:
    """Every import below `tree`; those in functions and under TYPE_CHECKING are late."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or "" if node.level == 0 else f"{package}.{node.module or ''}".rstrip(".")
            yield from (Import(f"{base}.{alias.name}", node.lineno, late) for alias in node.names)
        inner = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        )
        yield from imports(node, package, late or inner)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> list[Import]:
    package = ".".join(("zcopy", *path.relative_to(PACKAGE).parts[:-1]))
    return list(imports(parsed(path), package))


def spoken(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that is read, dotted by two parts at most, with imported names under their own."""
    origin = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            base = ast.unparse(node.value)
            yield f"{'.'.join(base.split('.')[-2:])}.{node.attr}", node.lineno
            yield f"{base.split('.')[-1]}.{node.attr}", node.lineno
        elif isinstance(node, ast.Name):
            yield origin.get(node.id, node.id), node.lineno


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_go_downwards(path: Path) -> None:
    part = part_of(path)
    if part == "cli":
        return
    allowed = ALLOWED[part] | {part, "__version__"}
    wrong = [
        f"{name_of(path)}:{found.line} imports {found.module}"
        for found in imports_of(path)
        if found.module.startswith("zcopy.") and found.module.split(".")[1] not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_each_library_has_its_place(path: Path) -> None:
    name = name_of(path)
    wrong = [
        f"{name}:{found.line} imports {found.module}"
        for found in imports_of(path)
        if (places := PLACES.get(found.module.split(".")[0])) and not name.startswith(places)
    ]
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_heavy_modules_are_imported_inside_functions(path: Path) -> None:
    wrong = [
        f"{name_of(path)}:{found.line} imports {found.module}"
        for found in imports_of(path)
        if found.module.split(".")[0] in LATE and not found.late
    ]
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_cli_speaks_to_the_outside(path: Path) -> None:
    if part_of(path) in ("cli", "__main__") or name_of(path) in PROGRAMS:
        return
    wrong = sorted(
        {f"{name_of(path)}:{line} uses {name}" for name, line in spoken(parsed(path)) if name in FORBIDDEN}
    )
    assert wrong == []


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_of_its_own_needs_nothing_of_ours(name: str) -> None:
    assert [found for found in imports_of(PACKAGE / name) if found.module.startswith("zcopy")] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print(1)", "print"),
        ("import sys\nsys.stdout.write('')", "sys.stdout"),
        ("from sys import argv as words\nwords", "sys.argv"),
        ("import os\nos.environ['A']", "os.environ"),
        ("from os import environ\nenviron", "os.environ"),
        ("from time import time\ntime()", "time.time"),
        ("import datetime\ndatetime.datetime.now()", "datetime.now"),
        ("from pathlib import Path\nPath.home()", "Path.home"),
    ],
)
def test_this_test_bites(source: str, found: str) -> None:
    assert found in {name for name, _ in spoken(ast.parse(source))} & FORBIDDEN


def test_imports_are_seen_wherever_they_are() -> None:
    source = "import a.b\nfrom . import c\nif TYPE_CHECKING:\n  import d\ndef f():\n  from zcopy.e import g"
    assert list(imports(ast.parse(source), "zcopy.x")) == [
        Import("a.b", 1, False),
        Import("zcopy.x.c", 2, False),
        Import("d", 4, True),
        Import("zcopy.e.g", 6, True),
    ]
