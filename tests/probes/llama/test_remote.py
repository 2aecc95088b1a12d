"""Servers that run already: asked over HTTP, with the file seen in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcopy.engines.llama.model import Shape, random_model
from zcopy.errors import UsageError
from zcopy.model import Outcome, Row

pytestmark = pytest.mark.llama

Measure = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "shared"
    place.mkdir()
    return place


def only(ran: Any) -> Row:
    (row,) = ran.rows
    return row


def test_two_running_servers_hand_over_by_file(folder: Path, serve: Any, measure: Measure) -> None:
    urls = tuple(serve(folder).client.url for _ in range(2))
    row = only(measure(routes=("file",), urls=urls, state_dirs=(str(folder),)))
    assert (row.outcome, row.reason, row.verified) == (Outcome.OK, None, True)
    assert (row.extra["cache_n"], row.extra["prompt_n"]) == (39, 1)
    assert row.bytes_copied == 2 * row.extra["n_read"]
    assert row.case["buffer"] == "server"
    assert list(folder.iterdir()) == []


def test_another_folder_than_theirs_is_told(
    folder: Path, tmp_path: Path, serve: Any, measure: Measure
) -> None:
    urls = tuple(serve(folder).client.url for _ in range(2))
    row = only(measure(routes=("file",), urls=urls, state_dirs=(str(tmp_path),)))
    assert row.outcome is Outcome.REFUSED
    assert "--state-dir must name the folder that the servers save to" in str(row.reason)


def test_two_models_are_refused(folder: Path, models: Path, serve: Any, measure: Measure) -> None:
    other = random_model(Shape(2, 2, 64), models)
    urls = serve(folder).client.url, serve(folder, other).client.url
    row = only(measure(routes=("file",), urls=urls, state_dirs=(str(folder),)))
    assert row.outcome is Outcome.REFUSED
    assert "the servers have different models: n_params" in str(row.reason)


def test_a_prompt_that_does_not_fit_is_refused(folder: Path, serve: Any, measure: Measure) -> None:
    urls = serve(folder, ctx=512).client.url, serve(folder, ctx=256).client.url
    row = only(measure(routes=("file",), urls=urls, state_dirs=(str(folder),), cells=300))
    assert row.outcome is Outcome.REFUSED
    assert "has 256 cells, the prompt needs 308" in str(row.reason)


def test_nobody_there_is_one_line(folder: Path, measure: Measure) -> None:
    row = only(
        measure(
            routes=("file",), urls=("http://127.0.0.1:9", "http://127.0.0.1:9"), state_dirs=(str(folder),)
        )
    )
    assert (row.outcome, row.reason) == (
        Outcome.FAILED, "the provider at http://127.0.0.1:9 is not there (/props)",
    )  # fmt: skip


def test_the_shared_route_needs_servers_of_ours(measure: Measure) -> None:
    with pytest.raises(UsageError, match="the file route only"):
        measure(urls=("http://127.0.0.1:9", "http://127.0.0.1:9"))
