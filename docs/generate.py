"""Write what the code itself knows into the pages: option tables, the table of buffer kinds, the commands.

    python docs/generate.py            write every part anew
    python docs/generate.py --check    change nothing; exit 1 and name the pages that differ

A part is what stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. NAME is ``options COMMAND``,
``buffers``, ``commands`` or ``commands FOLDER/``. tests/docs checks that every page is as this would write it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from zcopy.buffers.registry import catalogue
from zcopy.cli.commands import COMMANDS
from zcopy.cli.group import load
from zcopy.units import size_text

DOCS = Path(__file__).parent
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")))
_PART = re.compile(r"(<!-- generated: (?P<name>[^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that measures or shows something, by the words that call it: ``history list``."""
    for entry in COMMANDS:
        command = load(entry)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield entry.name, command
        else:
            yield from ((f"{entry.name} {name}", inner[name]) for name in inner)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def options(name: str) -> str:
    """The arguments and options of a command: what they take, what they are without being given, what they do."""
    params = dict(commands())[name].params
    rows = [_option(param) for param in params if not getattr(param, "hidden", False)]
    return table(("option", "takes", "default", "what it does"), rows)


def _option(param: Any) -> list[str]:
    if param.param_type_name == "argument":
        return [f"`{param.metavar}`", "", "" if param.required else "none", param.help or ""]
    names = sorted(param.opts + param.secondary_opts, key=len, reverse=True)
    return [", ".join(f"`{each}`" for each in names), _takes(param), _default(param), param.help or ""]


def _takes(param: Any) -> str:
    if param.is_flag:
        return ""
    if param.metavar:
        return str(param.metavar)
    choices = getattr(param.type, "choices", None)
    return (
        "|".join(map(str, choices))
        if choices
        else {"int": "N", "int range": "N"}.get(param.type.name, "TEXT")
    )


def _default(param: Any) -> str:
    if isinstance(param.show_default, str):
        return str(param.show_default)
    return "" if param.is_flag or param.default is None else str(param.default)


def buffers() -> str:
    """Every kind of memory with its capabilities."""
    rows = [
        [
            f"`{kind.name}`",
            kind.summary,
            size_text(kind.granule),
            *(
                "yes" if able else "no"
                for able in (
                    kind.capabilities.exportable,
                    kind.capabilities.dmabuf,
                    kind.capabilities.populates,
                    kind.capabilities.sparse,
                )
            ),
        ]
        for kind in catalogue()
    ]
    heads = (
        "kind",
        "what it is",
        "granule",
        "can be handed over",
        "dma-buf",
        "populating changes it",
        "holes tell",
    )
    return table(heads, rows)


def command_list(folder: str) -> str:
    """Every command with its page, which is in `folder`, and its line in ``zcopy --help``."""
    rows = [[f"[`zcopy {entry.name}`]({folder}{entry.name}.md)", entry.summary] for entry in COMMANDS]
    return table(("command", "what it is for"), rows)


def part(name: str) -> str:
    """The text of a part. Raises KeyError for a name that is none."""
    kind, _, rest = name.partition(" ")
    makers: dict[str, Callable[[], str]] = {
        "options": lambda: options(rest),
        "buffers": buffers,
        "commands": lambda: command_list(rest),
    }
    return makers[kind]()


def generated(page: str) -> str:
    """The page with all its parts as they should be."""
    return _PART.sub(lambda found: f"{found[1]}{part(found['name'])}{found[3]}", page)


def names(page: str) -> list[str]:
    """The parts that a page has."""
    return [found["name"] for found in _PART.finditer(page)]


def main(words: Sequence[str]) -> int:
    stale = [page for page in PAGES if generated(page.read_text()) != page.read_text()]
    for page in stale:
        print(page.relative_to(DOCS.parent))
        if "--check" not in words:
            page.write_text(generated(page.read_text()))
    return int(bool(stale) and "--check" in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
