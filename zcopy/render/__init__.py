"""Renderers draw a Report as one text and compute nothing. A new one is a file and a line in `_MODULES`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Final, Protocol, cast

from zcopy.table import Report


class Format(StrEnum):
    """What --format takes."""

    TABLE = "table"
    TSV = "tsv"
    CSV = "csv"
    JSON = "json"
    MD = "md"


@dataclass(frozen=True, slots=True)
class Look:
    """What the place a text goes to can show. `width` None is as wide as it needs to be."""

    colour: bool = False
    ascii: bool = False
    width: int | None = None


class Renderer(Protocol):
    def render(self, report: Report, look: Look) -> str: ...


_MODULES: Final = {
    Format.TABLE: "zcopy.render.text",
    Format.TSV: "zcopy.render.tsv",
    Format.CSV: "zcopy.render.csv",
    Format.JSON: "zcopy.render.json",
    Format.MD: "zcopy.render.markdown",
}


def render(report: Report, format: Format, look: Look) -> str:
    """The report as one text that ends in a newline."""
    # Late, because the table renderer costs an import of rich and JSON must not pay for it.
    module = cast(Renderer, import_module(_MODULES[format]))
    return module.render(report, look)
