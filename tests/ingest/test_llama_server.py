"""The log and the answers of a real llama.cpp server are understood as what they are."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zcopy.engines.llama.model import Shape, random_model
from zcopy.engines.llama.server import Server, Setup, unavailable
from zcopy.ingest.reading import Reading

pytestmark = pytest.mark.llama
PROMPT = list(range(3, 43))
SECOND = 10**9


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if lack := unavailable():
        pytest.skip(lack)
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    setup = Setup(random_model(Shape(2, 2, 64), tmp_path), 512, tmp_path)
    with Server(
        "a server", setup, deadline_ns=60 * SECOND, ticks=time.monotonic_ns, environ=os.environ
    ) as found:
        yield found


def test_its_times_are_rows(server: Server) -> None:
    ask = {"prompt": PROMPT, "n_predict": 4, "id_slot": 0, "cache_prompt": True}
    answers = [
        server.client.post(path, body).document
        for path, body in (
            ("/completion", ask),
            ("/slots/0?action=save", {"filename": "a.bin"}),
            ("/slots/0?action=restore", {"filename": "a.bin"}),
            ("/completion", ask),
        )
    ]
    log = Path(f"/proc/{server.pid}/fd/2").read_bytes()
    reading = Reading()
    reading.take(b"\n".join([log, *(json.dumps(answer).encode() for answer in answers)]))
    reading.end()
    rows = {tuple(row.case.items()): row for row in reading.collector.rows({})}

    prefill, saved, restored, again = answers
    case = ("route", "file"), ("cells", saved["n_saved"]), ("engine", "llama")
    assert rows[case].bytes == saved["n_written"] == restored["n_read"]
    assert rows[case].ns == {
        "server_save": (round(saved["timings"]["save_ms"] * 1e6),),
        "server_restore": (round(restored["timings"]["restore_ms"] * 1e6),),
    }
    for timings in (prefill["timings"], again["timings"]):
        stage = ("engine", "llama"), ("stage", "prompt eval"), ("tokens", timings["prompt_n"])
        (logged,) = rows[stage].ns["prompt_eval_time"]
        assert abs(logged - timings["prompt_ms"] * 1e6) < 10_000  # the log has two decimals of a ms
    whole = {key: value for key, value in again["timings"].items() if key in ("cache_n", "prompt_n")}
    completion = next(
        row for row in rows.values() if row.case.items() >= whole.items() and "cache_n" in row.case
    )
    assert completion.case["cells"] == len(PROMPT)
    assert completion.ns["first_token"] == (round(again["timings"]["prompt_ms"] * 1e6),)
    assert reading.tally.doubtful == 0
