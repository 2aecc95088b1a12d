"""Links inside the repository lead to a file, and to a heading of it where they name one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Any) -> Iterator[tuple[Path, str]]:
    for target in _LINK.findall(page.prose):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        yield ((page.path.parent / path).resolve() if path else page.path), anchor


def anchors(path: Path) -> set[str]:
    """The names that headings get where Markdown is shown."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere(page: Any) -> None:
    for path, anchor in links(page):
        assert path.exists(), f"{page.name} links to {path.name}, which is not there"
        assert not anchor or anchor in anchors(path), f"{page.name} links to #{anchor} of {path.name}"


def test_the_index_has_every_page(doc: Callable[[str], Any], root: Path) -> None:
    reached = {path for path, _ in links(doc("docs/README.md"))}
    pages = {*(root / "docs").glob("*.md"), *(root / "docs").glob("*.schema.json")}
    assert pages - reached == {root / "docs" / "README.md"}
