"""`zcopy fill` as a command: formats, exit codes, plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/zcopy.run.schema.json").read_text())
SMALL = ("fill", "--size", "64KiB", "--reps", "2", "--method", "memcpy,nt", "--no-lock")


def test_a_run_is_a_document_and_saved(zcopy: Any) -> None:
    done = zcopy(*SMALL, "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert [row["case"]["method"] for row in found["rows"]] == ["memcpy", "memcpy", "nt"]
    assert json.loads(zcopy("history", "show", "@last", "--json").stdout)["rows"] == found["rows"]


def test_the_table_and_the_rows(zcopy: Any) -> None:
    table = zcopy(*SMALL, "--format", "table", "--no-save").stdout
    assert "fill from cached memory" in table
    assert "memcpy/libc" in table
    header, first, *_ = zcopy(*SMALL, "--no-save").stdout.splitlines()
    row = dict(zip(header.split("\t"), first.split("\t"), strict=True))
    assert (row["case.buffer"], row["case.size"], row["n.fill"], row["vs_memcpy"]) == (
        "anon",
        "65536",
        "2",
        "1.0",
    )


def test_a_kind_named_and_absent_is_77_and_under_all_0(zcopy: Any) -> None:
    assert zcopy(*SMALL, "--no-save", "--buffer", "memfd,dma-heap:nowhere").returncode == 77
    assert zcopy(*SMALL, "--no-save", "--buffer", "all").returncode == 0


def test_a_plan_fills_nothing(zcopy: Any) -> None:
    found = json.loads(zcopy("fill", "--plan", "--json", "--size", "1MiB,2MiB").stdout)
    assert {case["size"] for case in found["cases"]} == {1 << 20, 2 << 20}
    assert found["memory_bytes"] == 4 * (2 << 20)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--size", "big"), "--size"),
        (("--size", "1B"), "is not between"),
        (("--method", "dma"), "--method"),
        (("--sync", "twice"), "--sync"),
        (("--threads", "many"), "--threads"),
        (("--isa", "mmx"), "no way to fill called nt/mmx"),
        (("--buffer", "tape"), "is no kind of memory"),
        (("--cpus", "0", "--threads", "2"), "as many --cpus"),
    ],
)
def test_wrong_usage_is_2_and_one_line(words: tuple[str, ...], told: str, zcopy: Any) -> None:
    done = zcopy("fill", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_table_of_short_fills_is_in_microseconds(zcopy: Any) -> None:
    """The head names the unit; nothing is written with an exponent."""
    words = (
        "fill",
        "--method",
        "memcpy",
        "--reps",
        "2",
        "--no-lock",
        "--no-save",
        "--format",
        "table",
        "--size",
    )
    short, long = (zcopy(*words, size).stdout.partition("\n\n")[0] for size in ("4KiB", "16MiB"))
    assert " µs" in short and " ms" not in short
    assert " ms" in long and " µs" not in long
    assert "e-" not in short


def test_the_table_says_what_the_first_touch_costs(zcopy: Any) -> None:
    words = ("--size", "8MiB", "--method", "memcpy", "--reps", "2", "--buffer", "anon", "--populate", "all")
    done = zcopy("fill", *words, "--no-lock", "--no-save", "--format", "table")
    assert done.returncode == 0
    assert "8 MiB, first touch: anon, populated takes " in done.stdout
    assert "; anon takes " in done.stdout
    assert zcopy("fill", "--populate", "map").returncode == 2
