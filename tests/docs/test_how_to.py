"""The programs in the how-to pages run as they stand there."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from typer.main import get_command

from zcopy.cli.context import AppContext
from zcopy.cli.group import new_app
from zcopy.errors import MeasurementError
from zcopy.history.recorder import NullRecorder
from zcopy.host import Host
from zcopy.locks import Clock, LockSettings
from zcopy.model import Outcome
from zcopy.native.region import Region
from zcopy.runner import Session, run


@pytest.fixture
def program(doc: Callable[[str], Any]) -> Iterator[Callable[[str, int, str], ModuleType]]:
    """The n-th Python block of a page as a module of that name."""
    made: list[str] = []

    def build(page: str, number: int, name: str) -> ModuleType:
        module = sys.modules[name] = ModuleType(name)
        made.append(name)
        text = doc(page).blocks("python")[number].text
        exec(compile(text, f"{page} {number}", "exec"), module.__dict__)
        return module

    yield build
    for name in made:
        del sys.modules[name]


def session() -> Session:
    return Session(
        run_id="a", started="2026-11-30T21:00:00Z", version="0.1.0", argv=(), environ=dict(os.environ),
        keeper=NullRecorder(), clock=Clock(time.monotonic_ns, time.time_ns), locks=LockSettings(),
        progress=lambda _what, _done, _total: None, notify=lambda _line: None, lock=False,
    )  # fmt: skip


def test_the_kind_of_memory(program: Any, held: Callable[[], Any]) -> None:
    kind = program("docs/adding-a-buffer.md", 0, "zcopy.buffers.warm").MemfdWarm()
    before = held()
    assert kind.unavailable(Host.read()) is None
    with kind.allocate(100_000, "zcopy-test") as region:
        assert region.size == kind.room(100_000)
        assert kind.proof(region)["seals"][:2] == ["shrink", "grow"]
        with region.access(write=True) as view:
            assert bytes(view[:4]) == bytes(4)
            view.release()
    with Region(-1, 4096) as anonymous, pytest.raises(MeasurementError):
        kind.proof(anonymous)
    after = held()
    assert (after.fds, after.mappings) == (before.fds, before.mappings)


def test_the_probe(program: Any, root: Path) -> None:
    module = program("docs/adding-a-probe.md", 0, "zcopy.probes.touch")
    names = ("memfd", "dma-heap:none-of-that-name")
    probe = module.TouchProbe(module.TouchParams(names, 1 << 20, 3))
    assert [case["buffer"] for case in probe.plan(Host.read()).cases] == list(names)
    done = run(probe, session())
    assert [row.outcome for row in done.rows] == [Outcome.OK, Outcome.SKIPPED]
    assert len(done.rows[0].ns["populate"]) == 3
    schema = json.loads((root / "docs" / "zcopy.run.schema.json").read_text())
    jsonschema.validate(json.loads(json.dumps(done.document())), schema)


def test_the_command(program: Any, application: Callable[..., AppContext], tmp_path: Path) -> None:
    program("docs/adding-a-probe.md", 0, "zcopy.probes.touch")
    module = program("docs/adding-a-probe.md", 1, "zcopy.cli.touch")
    app = new_app()
    app.command("touch", epilog=module.EPILOG)(module.command)
    command = get_command(app)
    words = ["--buffer", "memfd,anon", "--json", "--no-lock", "--no-save"]
    with command.make_context("touch", words, obj=application("touch", *words)) as context:
        assert command.invoke(context) == 0
    document = json.loads((tmp_path / "stdout").read_text())
    assert [row["case"]["buffer"] for row in document["rows"]] == ["memfd", "anon"]
