"""llama.cpp's own timings: what its server answers to save, restore and completion, and what it and its tools log.

The forms are those of tools/server (`print_timings`, the results of slot tasks) and of llama_perf_context_print;
older builds differ in spaces, in the words before them, and in lines that other programs have wrapped into JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from zcopy.ingest.quantities import DoubtError, count, nanoseconds
from zcopy.ingest.record import Record
from zcopy.model import Scalar

ENGINE: Final = "llama"
_TIME: Final = re.compile(
    r"(?<!\w)(prompt eval|eval|total|load|sample|sampling|samplers) time {0,40}= {0,40}(\S{1,40}) ms"
    r"(?: {0,9}/ {0,40}(\S{1,40}) (?:tokens|runs)(?!\w))?"
)
_CACHE: Final = re.compile(r"prompt cache update took (\S{1,40}) ms(?!\w)")
_MOST_STARTS: Final = 4  # braces before the answer that something else has written
_DECODER: Final = json.JSONDecoder()


def read(text: str) -> tuple[Record, ...]:
    """Everything in the line. Raises DoubtError."""
    answer = _answer(text) if '"timings"' in text else None
    if answer is not None:
        return tuple(_timings(answer, answer["timings"]))
    return (*_times(text), *_cache(text))


def _times(text: str) -> Iterator[Record]:
    """``prompt eval time = 71.12 ms / 64 tokens (…)`` and its like; the phase has the words of the log."""
    for words, number, tokens in _TIME.findall(text):
        case: dict[str, Scalar] = {"engine": ENGINE, "stage": words}
        if tokens:
            case["tokens"] = count(tokens)
        yield Record(ENGINE, case, {f"{words.replace(' ', '_')}_time": nanoseconds(number, "ms")})


def _cache(text: str) -> Iterator[Record]:
    for number in _CACHE.findall(text):
        case = {"engine": ENGINE, "stage": "prompt cache update"}
        yield Record(ENGINE, case, {"prompt_cache_update": nanoseconds(number, "ms")})


def _answer(text: str) -> dict[str, Any] | None:
    """The first object in the line that has timings."""
    start = -1
    for _ in range(_MOST_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            return None
        try:
            found, _end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("timings"), dict):
            return found
    return None


def _timings(answer: Mapping[str, Any], timings: Mapping[str, Any]) -> Iterator[Record]:
    if "n_saved" in answer:
        yield _moved(answer, timings, "n_saved", "n_written", "save")
    elif "n_restored" in answer:
        yield _moved(answer, timings, "n_restored", "n_read", "restore")
    elif "prompt_ms" in timings:
        yield _completion(timings)


def _moved(
    answer: Mapping[str, Any], timings: Mapping[str, Any], cells: str, size: str, action: str
) -> Record:
    """A slot's state to or from its file: the phases of `zcopy handoff --engine llama`, in the server's own time."""
    moved = _count(answer, size)
    case: dict[str, Scalar] = {"route": "file", "cells": _count(answer, cells), "engine": ENGINE}
    ns = {f"server_{action}": _ns(timings, f"{action}_ms")}
    return Record(ENGINE, case, ns, bytes=moved, copied=moved)


def _completion(timings: Mapping[str, Any]) -> Record:
    """The prompt's part to its first token, and what each further token took."""
    prompt = _count(timings, "prompt_n")
    case: dict[str, Scalar] = {"engine": ENGINE, "stage": "completion"}
    if "cache_n" in timings:
        cached = _count(timings, "cache_n")
        case |= {"cells": cached + prompt, "cache_n": cached}
    case["prompt_n"] = prompt
    ns = {"first_token": _ns(timings, "prompt_ms")}
    if timings.get("predicted_n") and timings.get("predicted_per_token_ms") is not None:
        ns["token"] = _ns(timings, "predicted_per_token_ms")
    return Record(ENGINE, case, ns)


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DoubtError(f"{name} is no number")
    try:
        return float(value)
    except OverflowError as error:
        raise DoubtError(f"{name} cannot be") from error


def _count(values: Mapping[str, Any], name: str) -> int:
    return count(_number(values, name))


def _ns(values: Mapping[str, Any], name: str) -> int:
    return nanoseconds(_number(values, name), "ms")
