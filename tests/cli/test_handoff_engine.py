"""`zcopy handoff --engine llama` up to the servers: its words, its plan, its table, and a box without the wheel."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from zcopy.cli.engine_tables import engine_report
from zcopy.engines.llama import server
from zcopy.host import Host
from zcopy.model import Outcome, Row, Run
from zcopy.probes.base import Context
from zcopy.probes.handoff.geometry import PRESETS, TYPES, Cache
from zcopy.probes.handoff.params import HandoffParams, Length
from zcopy.probes.llama.params import EngineParams
from zcopy.probes.llama.probe import EngineProbe
from zcopy.render import Format, Look, render

ENGINE = ("--engine", "llama", "--model", "tiny")
URLS = ("--provider-url", "http://h:1", "--decoder-url", "http://h:2")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--forge",), "--forge belongs to --engine llama"),
        (("--gguf", "m.gguf"), "--gguf belongs to --engine llama"),
        (("--engine", "vllm"), "--engine 'vllm' is none of none, llama"),
        ((*ENGINE, "--provider-url", "http://h:1"), "--provider-url and --decoder-url go together"),
        ((*ENGINE, *URLS[:-1], "https://h:2"), "'https://h:2' is no server's address (give it as http://HOST:PORT)"),
        ((*ENGINE, *URLS[:-1], "http://me:word@h:2"), "holds no user name and no password"),
        ((*ENGINE, *URLS, "--route", "shared"), "the file route only"),
        ((*ENGINE, *URLS, "--forge"), "the file route only"),
        ((*ENGINE, "--route", "pipe"), "--engine llama has no --route pipe"),
        ((*ENGINE, "--inject", "stride"), "--engine llama has no --inject stride"),
        ((*ENGINE, "--inject", "no-write", "--route", "file"), "is about the shared route"),
        ((*ENGINE, "--region", "fresh"), "--engine llama has no --region fresh"),
        ((*ENGINE, "--scatter"), "has no --scatter"),
        ((*ENGINE, "--ctx", "400"), "multiples of 256"),
        ((*ENGINE, "--cells", "510", "--ctx", "512"), "has no room for 8 tokens after 510"),
        ((*ENGINE, "--n-predict", "0"), "--n-predict 0 is not between"),
        ((*ENGINE, "--threads", "0"), "--threads 0 is not between"),
        ((*ENGINE, "--gguf", "nowhere.gguf"), "no such preset or file"),
        (("--engine", "llama", "--layers", "2", "--kv-heads", "2", "--head-dim", "64", "--head-dim-v", "32"),
         "need a model of your own"),
    ],
)  # fmt: skip
def test_words_that_do_not_go_together_are_wrong_usage(words: tuple[str, ...], told: str, zcopy: Any) -> None:
    done = zcopy("handoff", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_plan_starts_no_server(zcopy: Any) -> None:
    found = json.loads(zcopy("handoff", *ENGINE, "--plan", "--json").stdout)
    assert [(case["route"], case["engine"], case["cells"]) for case in found["cases"]] == [
        ("shared", "llama", 307), ("file", "llama", 307),
    ]  # fmt: skip
    forged = json.loads(zcopy("handoff", *ENGINE, "--plan", "--json", "--forge").stdout)
    assert [case["cells"] for case in forged["cases"]] == [307, 307, 4105, 4105, 16399, 16399]
    assert forged["memory_bytes"] < 2 * found["memory_bytes"] * 16399 // 307


@pytest.fixture
def probe(tmp_path: Path) -> EngineProbe:
    params = HandoffParams(
        Cache(PRESETS["tiny"], TYPES["f16"], TYPES["f16"]), (Length(40, 512),), regions=("reused",),
        state_dirs=(str(tmp_path / "states"),),
    )  # fmt: skip
    return EngineProbe(EngineParams(params, tmp_path / "models"))


@pytest.mark.usefixtures("nothing_left")
def test_without_the_wheel_every_row_says_what_helps(
    probe: EngineProbe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)
    context = Context(Host.read(), time.monotonic_ns, lambda *_: None, lambda _: None, dict(os.environ))
    rows = list(probe.measure(context))
    assert [(row.case["route"], row.outcome) for row in rows] == [
        ("shared", Outcome.SKIPPED), ("file", Outcome.SKIPPED),
    ]  # fmt: skip
    assert {row.reason for row in rows} == {
        "the package xllamacpp is not installed (pip install 'zcopy[llama]')"
    }
    assert not (tmp_path / "models").exists()


def rows() -> tuple[Row, ...]:
    case = {"buffer": "memfd", "region": "reused", "cells": 307, "engine": "llama", "forge": False}
    return (
        Row(
            {"route": "shared", **case}, bytes=9, verified=True,
            ns={"write": (7_000_000,), "wake": (100_000,), "first_token": (18_000_000,), "total": (18_100_000,)},
            extra={"cells_preset": True, "cache_n": 306, "prompt_n": 1, "vs_file": 4.0},
        ),
        Row({"route": "file", **case}, Outcome.FAILED, "restored 307, re-used 0", verified=False),
    )  # fmt: skip


def test_the_table_says_what_it_does_not_have(probe: EngineProbe) -> None:
    run = Run("a", "handoff", "2026-11-30T21:00:00Z", "0.1.0", params=probe.params(), rows=rows())
    text = render(engine_report(run), Format.TABLE, Look())
    assert "KV handoff to llama.cpp, tiny f16, prefill" in text
    assert "no adopting is in these numbers" in text
    assert "failed: restored 307, re-used 0 [file memfd" in text
    shared = next(line.split() for line in text.splitlines() if line.startswith("shared  "))
    assert shared[:4] == ["shared", "memfd", "307", "18.1"]
    assert shared[-2:] == ["yes", "ok"]


def test_rows_for_scripts_name_the_engine(probe: EngineProbe) -> None:
    run = Run("a", "handoff", "2026-11-30T21:00:00Z", "0.1.0", params=probe.params(), rows=rows())
    header, first, _ = render(engine_report(run), Format.TSV, Look()).splitlines()
    found = dict(zip(header.split("\t"), first.split("\t"), strict=True))
    assert (found["case.engine"], found["cells_preset"], found["median.total_ns"]) == (
        "llama",
        "true",
        "18100000",
    )
    assert "median.adopt_ns" not in found
