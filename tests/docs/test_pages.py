"""What the pages say of the code's structure, warnings and version."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import zcopy

PACKAGE = Path(zcopy.__file__).parent


def test_the_layers_are_those_of_the_test(doc: Callable[[str], Any], layers: ModuleType) -> None:
    there = {
        path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()
    }
    told = {part: may for part, _what, may in doc("ARCHITECTURE.md").cells("part")}
    assert told.pop("cli") == "everything"
    allowed = {part: may & there for part, may in layers.ALLOWED.items() if part in there and part[0] != "_"}
    assert {part: _parts(may, layers.VALUES) for part, may in told.items()} == allowed


def _parts(words: str, values: frozenset[str]) -> frozenset[str]:
    names = frozenset(words.split(", ")) - {"nothing"}
    return (names - {"the values"}) | (values if "the values" in names else frozenset())


def test_every_warning_has_its_line(pages: list[Any]) -> None:
    sources = (path.read_text() for path in PACKAGE.rglob("*.py"))
    codes = {code for text in sources for code in re.findall(r"Warning_\(\s*\"([a-z-]+)\"", text)}
    assert len(codes) > 10
    told = {code for page in pages for code in re.findall(r"`([a-z-]+)`", page.text)}
    assert codes - told == set()


def test_every_environment_variable_is_told(pages: list[Any]) -> None:
    found = {
        name for path in PACKAGE.rglob("*.py") for name in re.findall(r"\bZCOPY_[A-Z_]+", path.read_text())
    }
    told = {name for page in pages for name in re.findall(r"\bZCOPY_[A-Z_]+", page.text)}
    assert found - told == set()


def test_the_changes_name_this_version(doc: Callable[[str], Any]) -> None:
    assert re.search(rf"^## {re.escape(zcopy.__version__)}\b", doc("CHANGELOG.md").text, re.MULTILINE)


def test_the_lanes_are_told(doc: Callable[[str], Any], root: Path) -> None:
    lanes = {path.name for path in (root / ".ci" / "lanes").iterdir()}
    assert {cells[0].rpartition("/")[2] for cells in doc("CONTRIBUTING.md").cells("lane")} == lanes
