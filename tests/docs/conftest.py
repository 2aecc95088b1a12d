"""The pages, their parts, and the generator that writes some of them."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from zcopy.cli.context import AppContext, Settings
from zcopy.cli.streams import Streams
from zcopy.render import Look

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_JOINTS = frozenset(("|", "||", "&&", ";", ">", ">>", "2>", "(", ")", "&"))


@dataclass(frozen=True)
class Block:
    """A fenced block: its language ("" for none) and its text."""

    language: str
    text: str


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, *languages: str) -> list[Block]:
        found = (Block(*match.groups()) for match in _FENCE.finditer(self.text))
        return [block for block in found if block.language in languages]

    def cells(self, head: str) -> list[list[str]]:
        """The rows of the table whose first heading is `head`; code marks are taken off the first cell."""
        lines = iter(self.text.splitlines())
        for line in lines:
            if line.startswith(f"| {head} |"):
                next(lines)
                return list(_rows(lines))
        raise AssertionError(f"{self.name} has no table that begins with {head!r}")

    def command_lines(self) -> list[tuple[str, ...]]:
        """The arguments of every call of zcopy in a block of commands."""
        blocks = self.blocks("", "sh", "console")
        lines = (line for block in blocks for line in block.text.replace("\\\n", " ").splitlines())
        return [call for line in lines if "zcopy" in line for call in calls(line)]


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if not line.startswith("|"):
            return
        first, *rest = (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))
        yield [first.strip("`"), *rest]


def calls(line: str) -> Iterator[tuple[str, ...]]:
    """Each call of zcopy in a line of shell, without its redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError:  # not shell: a message that a command prints
        return
    current: list[str] = []
    for word in [*words, ";"]:
        if word not in _JOINTS:
            current.append(word)
            continue
        if current and (current[0] == "zcopy" or current[0].endswith("/zcopy")):
            yield tuple(current[1:])
        current = []


def all_pages() -> list[Page]:
    return [Page(path) for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with `page` runs for each page, one with `call` for each call of zcopy in them."""
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", all_pages(), ids=lambda page: page.name)
    if "call" in metafunc.fixturenames:
        found = dict.fromkeys(call for page in all_pages() for call in page.command_lines())
        metafunc.parametrize("call", found, ids=lambda call: " ".join(call) or "nothing")


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Callable[..., AppContext]]:
    """What main makes of words: a context whose stdout is the file `tmp_path / "stdout"`."""
    with (tmp_path / "stdout").open("w+") as stdout, (tmp_path / "stderr").open("w+") as stderr:

        def make(*words: str) -> AppContext:
            look = Look(colour=False, ascii=False, width=None)
            settings = Settings(
                words, {"HOME": str(tmp_path)}, tmp_path, stdout_tty=False, stderr_tty=False, look=look
            )
            return AppContext(settings, Streams(stdout, stderr))

        yield make


@pytest.fixture
def pages() -> list[Page]:
    return all_pages()


@pytest.fixture
def doc() -> Callable[[str], Page]:
    """A page by its path in the checkout."""
    return lambda name: Page(ROOT / name)


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def generator() -> ModuleType:
    """docs/generate.py."""
    return load(ROOT / "docs" / "generate.py", "docs_generate")


@pytest.fixture
def layers() -> ModuleType:
    """tests/test_layers.py, for what it allows."""
    return load(ROOT / "tests" / "test_layers.py", "docs_layers")


def load(path: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec and spec.loader
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
