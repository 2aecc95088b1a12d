"""Command lines in the pages are ones that zcopy takes, and documents fit their schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from zcopy.cli.commands import COMMANDS
from zcopy.cli.context import AppContext
from zcopy.cli.group import invoke, load
from zcopy.model import Run


def parse(words: tuple[str, ...]) -> None:
    """Raises what typer raises for words that it does not take."""
    name, *rest = words
    command = load(next(entry for entry in COMMANDS if entry.name == name))
    for word in list(rest):
        if word not in getattr(command, "commands", ()):
            break
        command = command.commands[word]
        rest = rest[1:]
    command.make_context(name, rest)


def test_a_call_in_the_pages_parses(call: tuple[str, ...]) -> None:
    if call[:1] in ((), ("--version",), ("--help",)):
        return
    parse(call)


@pytest.mark.parametrize(
    "words",
    [
        ("handoff", "--no-such"),
        ("handoff", "--reps", "many"),
        ("history", "list", "extra"),
        ("history", "show"),
        ("doctor", "--format", "xml"),
    ],
)
def test_a_wrong_call_does_not(words: tuple[str, ...]) -> None:
    with pytest.raises(typer.TyperException):
        parse(words)


def test_a_handoff_in_the_pages_can_be_planned(
    call: tuple[str, ...],
    application: Callable[..., AppContext],
    tmp_path: Path,
    schema: Callable[[str], Any],
) -> None:
    """The words of lists and names are checked by the command, not by typer."""
    if call[:1] != ("handoff",) or any(word.endswith(".gguf") for word in call):
        return
    assert invoke(application(*call, "--plan", "--format", "json", "-o", "-")) == 0
    document = json.loads((tmp_path / "stdout").read_text())
    assert document["cases"]
    jsonschema.validate(document, schema("zcopy.plan/1"))


def test_no_page_shows_a_command_that_is_not_there(page: Any) -> None:
    known = {entry.name for entry in COMMANDS}
    assert {name for name in re.findall(r"`zcopy ([a-z][a-z-]*)", page.prose) if name not in known} == set()


@pytest.fixture
def schema(root: Path) -> Callable[[str], Any]:
    """A schema by what documents call it."""

    def read(name: str) -> Any:
        stem = name.partition("/")[0]
        return json.loads((root / "docs" / f"{stem}.schema.json").read_text())

    return read


def test_documents_in_the_page_fit_their_schema(page: Any, schema: Callable[[str], Any]) -> None:
    for block in page.blocks("json"):
        document = json.loads(block.text)
        jsonschema.validate(document, schema(document["schema"]))


def test_the_run_in_the_handoff_page_is_one(doc: Callable[[str], Any]) -> None:
    """Its medians and rates are those of its samples."""
    documents = [json.loads(block.text) for block in doc("docs/handoff.md").blocks("json")]
    assert [document["schema"] for document in documents] == ["zcopy.run/1"]
    assert Run.parse(documents[0]).document() == documents[0]
