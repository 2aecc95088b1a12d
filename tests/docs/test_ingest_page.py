"""docs/ingest.md has every key of a row, every limit and every key for --case that there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.cli.context import AppContext
from zcopy.cli.group import invoke
from zcopy.cli.ingest import STATED
from zcopy.ingest import collect, group, lines
from zcopy.ingest.collect import Collector
from zcopy.ingest.quantities import UNITS
from zcopy.ingest.reading import Reading, Tally

LOG = b"""\
[ph] M=16 k=p1 a=1ms
{"n_saved":71,"n_written":10,"timings":{"save_ms":4}}
{"n_saved":71,"n_written":12,"timings":{"save_ms":4}}
""" + b"".join(b"shared KV handoff: 3 cells, 1 ms, %d bytes copied\n" % (i // 90) for i in range(100)) + b"".join(
    b"[ph] k=p%d a=1ms\n" % i for i in range(20)
)  # fmt: skip


@pytest.fixture
def ingest(doc: Callable[[str], Any]) -> Any:
    return doc("docs/ingest.md")


def test_keys_of_rows(ingest: Any) -> None:
    reading = Reading()
    reading.collector = Collector(most_samples=50)
    reading.take(LOG)
    seen = {key for row in reading.collector.rows({}) for key in row.extra}
    told = {key.strip("`") for cells in ingest.cells("key") for key in cells[0].split(", ")}
    assert told == seen


def test_counts_of_what_was_read(ingest: Any) -> None:
    assert all(f"`{name}`" in ingest.text for name in Tally().document())


def test_keys_that_can_be_stated(ingest: Any) -> None:
    assert ", ".join(f"`{key}`" for key in STATED) in " ".join(ingest.text.split())


def test_limits(ingest: Any) -> None:
    for limit in (collect.MOST_CASES, collect.MOST_SAMPLES, group.MOST_NAMES, group.MOST_VALUES):
        assert f"{limit:,}" in ingest.text
    assert lines.MOST_LINE == 1 << 20
    assert "line of more than 1 MiB" in ingest.text


def test_the_example_is_what_its_log_gives(
    ingest: Any, root: Path, application: Callable[..., AppContext], tmp_path: Path
) -> None:
    (tmp_path / "serve.log").write_bytes((root / "tests/ingest/logs/llama-server.log").read_bytes())
    words = ("ingest", "serve.log", "--format", "md", "--no-save", "-o", "-")
    assert invoke(application(*words)) == 0
    shown = (tmp_path / "stdout").read_text()
    assert shown[shown.index("| engine") :].strip() in ingest.text


def test_units(ingest: Any) -> None:
    missing = {unit for unit in UNITS if unit and unit.removesuffix("/s") not in ingest.text}
    assert missing <= {"μs", "byte", "bytes", "token", "KB", "KB/s"}  # spellings of what is there
