"""The JSON document: exactly one, ASCII, valid whatever was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from zcopy.model import Json
from zcopy.render import Look
from zcopy.table import Report


def render(report: Report, look: Look) -> str:  # noqa: ARG001
    return _text(finite(report.document()), "") + "\n"


def finite(value: Json) -> Any:
    """The value without NaN and infinities, which JSON lacks.

    Each becomes null, and the object it is in gets a key ``NAME_reason`` that says what it was.
    """
    if isinstance(value, Mapping):
        return _finite_object(value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        return None if _not_finite(value) else value
    return [finite(item) for item in value]


def _finite_object(value: Mapping[str, Json]) -> dict[str, Any]:
    clean: dict[str, Any] = {}
    for key, item in value.items():
        clean[key] = finite(item)
        items = [item] if isinstance(item, (str, float)) or not isinstance(item, Sequence) else item
        if lost := [one for one in items if _not_finite(one)]:
            clean[f"{key}_reason"] = f"not a finite number: {', '.join(sorted({str(one) for one in lost}))}"
    return clean


def _not_finite(value: Json) -> bool:
    return isinstance(value, float) and not isfinite(value)


def _text(value: Any, indent: str) -> str:
    """Indented by two, with lists of plain values (samples) on one line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        parts = [f"{json.dumps(str(key))}: {_text(item, inner)}" for key, item in value.items()]
        return f"{{\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return f"[\n{inner}" + f",\n{inner}".join(_text(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)
