"""The pages of the frame say what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from zcopy.config import KEYS, load
from zcopy.errors import Exit
from zcopy.render import Format

DOCS = Path(__file__).parents[2] / "docs"


def column(page: str, pattern: str) -> list[str]:
    return re.findall(pattern, (DOCS / page).read_text(), re.MULTILINE)


def test_every_exit_code_has_its_line() -> None:
    found = [(int(code), name) for code, name in column("errors.md", r"^\| (\d+) \| (\w+) \|")]
    assert found == [(int(exit), exit.name) for exit in Exit]


def test_every_format_has_its_line() -> None:
    assert column("output.md", r"^\| `(\w+)` \|") == [str(format) for format in Format]


def test_every_key_has_its_line() -> None:
    found = column("config.md", r"^\| `([\w.]+)` \| (\w+) \|")
    assert found == [(key.name, key.what) for key in KEYS]


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (DOCS / "config.md").read_text(), re.DOTALL)
    (tmp_path / "config.toml").write_text(example)
    assert tomllib.loads(example)
    assert load(tmp_path / "config.toml", tmp_path).unknown == ()
