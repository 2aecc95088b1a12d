"""``shared KV handoff: N cells, X ms, 0 bytes copied``: what an engine of the shared route says of each handoff."""

from __future__ import annotations

import re
from typing import Final

from zcopy.ingest.quantities import count, nanoseconds
from zcopy.ingest.record import Record

ENGINE: Final = "1bit"
_LINE: Final = re.compile(
    r"shared KV handoff: {0,9}(\S{1,40}) cells, {0,9}(\S{1,40}?) {0,9}(ns|us|µs|μs|ms|s), {0,9}(\S{1,40}) bytes copied"
)


def read(text: str) -> tuple[Record, ...]:
    """Adopting cells, as `zcopy handoff` times it. Raises DoubtError."""
    return tuple(
        Record(
            ENGINE,
            {"route": "shared", "cells": count(cells)},
            {"adopt": nanoseconds(number, unit)},
            copied=count(copied),
        )
        for cells, number, unit, copied in _LINE.findall(text)
    )
