"""The lines that engines print: of handoffs, and llama.cpp's in the forms of its builds and of those who wrap them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zcopy.ingest.parse import DoubtError, parse
from zcopy.ingest.reading import Reading

LOGS = Path(__file__).parent / "logs"
SAVE = {
    "id_slot": 0,
    "filename": "a.bin",
    "n_saved": 71,
    "n_written": 10471428,
    "timings": {"save_ms": 4.284},
}
RESTORE = {
    "id_slot": 0, "filename": "a.bin", "n_restored": 71, "n_read": 10471428, "timings": {"restore_ms": 2.877},
}  # fmt: skip


def said(line: str) -> list[tuple[dict[str, Any], dict[str, int]]]:
    return [(dict(record.case), dict(record.ns)) for record in parse(line.encode())]


@pytest.mark.parametrize(
    "line",
    [
        "shared KV handoff: 307 cells, 0.122 ms, 0 bytes copied",
        "Nov 06 12:00:01 strix serve[12]: shared KV handoff: 307 cells, 0.122 ms, 0 bytes copied",
        "\x1b[32m[info]\x1b[0m shared KV \x1b[1mhandoff: 307 cells, 0.122 ms, 0 bytes copied\x1b[0m\r",
        "shared KV handoff: 307 cells, 122 us, 0 bytes copied (route shared)",
        '{"log":"shared KV handoff: 307 cells, 0.122 ms, 0 bytes copied\\n","stream":"stderr"}',
        '{"log":"\\u001b[32mshared KV\\u001b[0m handoff: 307 cells,\\u001b[0m 0.122 ms, 0 bytes copied\\n"}',
    ],
)
def test_a_handoff(line: str) -> None:
    (record,) = parse(line.encode())
    assert record.case == {"route": "shared", "cells": 307}
    assert dict(record.ns) == {"adopt": 122_000}
    assert (record.engine, record.copied, record.bytes) == ("1bit", 0, None)


def test_bytes_that_were_copied_after_all_are_told() -> None:
    (record,) = parse(b"shared KV handoff: 307 cells, 9.1 ms, 45274820 bytes copied")
    assert record.copied == 45274820


@pytest.mark.parametrize(
    "line",
    [
        "shared KV handoff: 307 cells, nan ms, 0 bytes copied",
        "shared KV handoff: 307 cells, -0.1 ms, 0 bytes copied",
        "shared KV handoff: -307 cells, 0.1 ms, 0 bytes copied",
        "shared KV handoff: 1.5 cells, 0.1 ms, 0 bytes copied",
        "shared KV handoff: 307 cells, 1e9 s, 0 bytes copied",
        "shared KV handoff: 307 cells, 0.1 ms, 99999999999999999999 bytes copied",
        "prompt eval time =       -nan ms /    64 tokens",
        "eval time = 1.0 ms / -3 tokens",
        json.dumps({**SAVE, "n_saved": -1}),
        json.dumps({**SAVE, "n_saved": True}),
        json.dumps({**SAVE, "n_written": "many"}),
        json.dumps({**SAVE, "timings": {"save_ms": float("nan")}}),
        json.dumps({**SAVE, "n_written": 10**400}),
        json.dumps({**RESTORE, "timings": {}}),
    ],
)
def test_a_known_form_that_says_what_cannot_be(line: str) -> None:
    with pytest.raises(DoubtError):
        parse(line.encode())


@pytest.mark.parametrize(
    "line",
    [
        "shared KV handoff: 307 cells",
        "shared KV handoff: refused, falling back to the state file",
        "0.00.247.575 I slot print_timing: id  0 | task 0 |    graphs reused =          6",
        "slot update_slots: id 0 | task 0 | n_past = 64, n_tokens = 64, progress = 1.000000",
        "slot print_timing: id  0 | task 0 | n_gen =    100, tg =  35.41 t/s, tg_3s =  35.41 t/s",
        "slot print_timing: prompt processing, n_tokens = 6144, progress = 0.50, t =  3.20 s / 1920.00 tokens/s",
        'statistics ngram-mod: dur(b,g,a) = 360.990, 57.956, 11.541 ms, "timings"',
        '{"timings": [1, 2]}',
        '{"timings": {}}',
        '{"timings"',
        "the time = 5 ms",
        "timings " + "{" * 100_000,
        '"timings"' + "[" * 100_000,
        '{"timings":' + "[" * 100_000,
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert parse(line.encode()) == ()


@pytest.mark.parametrize("before", ["", "0.1 D srv  log_server_r: response: ", "data: ", 'curl {"a"} -> '])
def test_the_answers_of_save_and_restore(before: str) -> None:
    case = {"route": "file", "cells": 71, "engine": "llama"}
    for answer, phase, ns in ((SAVE, "server_save", 4_284_000), (RESTORE, "server_restore", 2_877_000)):
        (record,) = parse((before + json.dumps(answer)).encode())
        assert (dict(record.case), dict(record.ns)) == (case, {phase: ns})
        assert (record.bytes, record.copied) == (10471428, 10471428)


def test_an_answer_that_a_container_has_wrapped() -> None:
    line = json.dumps({"log": json.dumps(SAVE) + "\n", "stream": "stdout", "time": "2026-11-30T21:00:00Z"})
    assert said(line) == [({"route": "file", "cells": 71, "engine": "llama"}, {"server_save": 4_284_000})]


def test_a_completion() -> None:
    timings = {
        "cache_n": 63, "prompt_n": 1, "prompt_ms": 6.701, "predicted_n": 8, "predicted_ms": 43.267,
        "predicted_per_token_ms": 5.408375,
    }  # fmt: skip
    case = {"engine": "llama", "stage": "completion", "cells": 64, "cache_n": 63, "prompt_n": 1}
    found = said(json.dumps({"content": "{}", "timings": timings}))
    assert found == [(case, {"first_token": 6_701_000, "token": 5_408_375})]


def test_a_completion_of_an_older_server_and_of_no_token() -> None:
    timings = {"prompt_n": 6, "prompt_ms": 315.259, "predicted_n": 0, "predicted_per_token_ms": None}
    case = {"engine": "llama", "stage": "completion", "prompt_n": 6}
    assert said(json.dumps({"timings": timings})) == [(case, {"first_token": 315_259_000})]


@pytest.mark.parametrize(
    ("line", "stage", "tokens", "ns"),
    [
        (
            "slot print_timing: id  0 | task 0 | prompt eval time =      71.12 ms /    64 tokens (    1.11 ms",
            "prompt eval", 64, 71_120_000,
        ),
        ("prompt eval time =     915.13 ms /    51 tokens (   17.94 ms per token,    55.73 tokens per second)",
         "prompt eval", 51, 915_130_000),
        ("[42027]        eval time =   16112.50 ms /   192 tokens (   83.92 ms", "eval", 192, 16_112_500_000),
        ("llama_print_timings:        eval time = 24513.59 ms /   399 runs   (   61.44 ms per token)",
         "eval", 399, 24_513_590_000),
        ("llama_print_timings:       total time = 25431.49 ms", "total", None, 25_431_490_000),
        ("llama_perf_context_print:        load time =     618.92 ms", "load", None, 618_920_000),
        ("llama_perf_sampler_print:    sampling time =      24.62 ms /   227 runs   (    0.11 ms per token)",
         "sampling", 227, 24_620_000),
        ('{"level":"INFO","msg":"prompt eval time     =      90.53 ms /    13 tokens","id_slot":0}',
         "prompt eval", 13, 90_530_000),
        ("INFO [  print_timings] prompt eval time     =      90.53 ms /    13 tokens ( 6.96 ms per token) | tid=\"1\"",
         "prompt eval", 13, 90_530_000),
        ("prompt eval time =       0.00 ms /     0 tokens (    -nan ms per token,     -nan tokens per second)",
         "prompt eval", 0, 0),
    ],
)  # fmt: skip
def test_the_times_of_every_build(line: str, stage: str, tokens: int | None, ns: int) -> None:
    case = {"engine": "llama", "stage": stage, **({} if tokens is None else {"tokens": tokens})}
    assert said(line) == [(case, {f"{stage.replace(' ', '_')}_time": ns})]


def test_several_in_one_line() -> None:
    times = (
        "prompt eval time = 1.0 ms / 2 tokens",
        " eval time = 3.0 ms / 4 tokens",
        " total time = 4.0 ms / 6 tokens",
    )
    line = json.dumps({"log": "\n".join(times)})
    assert [case["stage"] for case, _ in said(line)] == ["prompt eval", "eval", "total"]


def test_the_prompt_cache() -> None:
    assert said("0.1 I srv  get_availabl: prompt cache update took 49.04 ms") == [
        ({"engine": "llama", "stage": "prompt cache update"}, {"prompt_cache_update": 49_040_000})
    ]


def test_a_real_log_of_a_server() -> None:
    """Of build 11549: two completions, with a save and a restore between them."""
    reading = Reading()
    reading.take((LOGS / "llama-server.log").read_bytes())
    reading.end()
    found = {
        (row.case.get("route") or row.case["stage"], row.case.get("cells") or row.case["tokens"]): row
        for row in reading.collector.rows({})
    }
    assert {key: len(next(iter(row.ns.values()))) for key, row in found.items()} == {
        ("file", 71): 1, ("prompt eval", 64): 1, ("prompt eval", 1): 1, ("eval", 8): 2, ("total", 72): 1,
        ("total", 9): 1,
    }  # fmt: skip
    state = found["file", 71]
    assert (state.bytes, state.bytes_copied) == (10471428, 2 * 10471428)
    assert state.median_ns == {"server_save": 4_284_000, "server_restore": 2_877_000}
    assert reading.tally.understood == 8
    assert reading.tally.doubtful == 0
