"""What the code knows stands in the pages as the code has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from zcopy.buffers.registry import catalogue
from zcopy.cli.commands import COMMANDS


def test_the_page_is_as_it_would_be_generated(page: Any, generator: ModuleType) -> None:
    assert generator.generated(page.text) == page.text, "run: python docs/generate.py"


def test_every_command_has_its_page_with_its_options(
    doc: Callable[[str], Any], generator: ModuleType
) -> None:
    for name, command in generator.commands():
        if any(param.name != "help" for param in command.params):
            page = doc(f"docs/{name.split()[0]}.md")
            assert f"options {name}" in generator.names(page.text), f"{page.name} lacks the options of {name}"


def test_every_command_is_in_the_readme(doc: Callable[[str], Any]) -> None:
    for entry in COMMANDS:
        assert f"](docs/{entry.name}.md)" in doc("README.md").text


def test_every_kind_of_memory_has_its_heading(doc: Callable[[str], Any]) -> None:
    headings = {
        line[3:].split(":")[0] for line in doc("docs/buffers.md").text.splitlines() if line[:3] == "## "
    }
    assert {kind.name.split(":")[0] for kind in catalogue()} <= headings


def test_a_stale_part_is_found(generator: ModuleType) -> None:
    page = "a\n<!-- generated: buffers -->\nold\n<!-- end -->\nb\n"
    fresh = generator.generated(page)
    assert fresh != page
    assert fresh.startswith("a\n<!-- generated: buffers -->\n| kind |")
    assert fresh.endswith("|\n<!-- end -->\nb\n")
    assert generator.generated(fresh) == fresh


def test_a_bar_in_a_cell_is_escaped(generator: ModuleType) -> None:
    assert generator.table(("a",), [["b|c"]]) == "| a |\n| --- |\n| b\\|c |\n"


def test_check_changes_nothing_and_tells(tmp_path: Path, root: Path) -> None:
    """A copy of the generator beside a stale page."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("")
    script = tmp_path / "docs" / "generate.py"
    script.write_text((root / "docs" / "generate.py").read_text())
    stale = tmp_path / "docs" / "a.md"
    stale.write_text("<!-- generated: commands -->\n<!-- end -->\n")

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip()

    assert run("--check") == (1, "docs/a.md")
    assert "zcopy" not in stale.read_text()
    assert run() == (0, "docs/a.md")
    assert "zcopy handoff" in stale.read_text()
    assert run("--check") == (0, "")
