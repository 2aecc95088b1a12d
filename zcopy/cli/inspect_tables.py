"""Inspected files as a table and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zcopy.model import Json
from zcopy.seqstate.against import TYPE_NAMES, Expectation, type_name
from zcopy.seqstate.cells import Cells
from zcopy.seqstate.sections import KvSection, RecurrentSection, Section, Tensor
from zcopy.seqstate.state import StateFile
from zcopy.table import Cell, Column, Kind, Report, Table

SCHEMA: Final = "zcopy.inspect/1"

_COLUMNS: Final = (
    Column("file", "file", kind=Kind.ID, priority=0),
    Column("version", "version", kind=Kind.COUNT, priority=4),
    Column("tokens", "tokens", kind=Kind.COUNT, priority=2),
    Column("cells", "cells", kind=Kind.COUNT, priority=1),
    Column("positions", "positions", kind=Kind.ID, priority=2),
    Column("layers", "layers", kind=Kind.ID, priority=1),
    Column("k", "K", "row bytes", kind=Kind.ID, priority=2),
    Column("v", "V", "row bytes", kind=Kind.ID, priority=2),
    Column("rotation", "rotation", kind=Kind.ID, priority=3),
    Column("recurrent", "recurrent states", kind=Kind.COUNT, priority=3),
    Column("checkpoints", "checkpoints", kind=Kind.COUNT, priority=3),
    Column("size", "size", kind=Kind.BYTES, priority=1),
    Column("expected", "expected", kind=Kind.BYTES, priority=3),
    Column("taken", "taken", kind=Kind.FLAG, priority=1),
    Column("verdict", "verdict", priority=0),
)


@dataclass(frozen=True, slots=True)
class Inspected:
    """A file, and a server's objections to it; None: no server was asked about."""

    file: str
    state: StateFile
    objections: Sequence[str] | None

    @property
    def taken(self) -> bool | None:
        return None if self.objections is None else not self.objections


def inspect_report(found: Sequence[Inspected], server: Expectation | None) -> Report:
    """One row a file; why a server would not take one follows."""
    notes = [f"{each.file}: not taken: {why}" for each in found for why in each.objections or ()]
    columns = tuple(column for column in _COLUMNS if server is not None or column.key != "taken")
    rows = tuple(
        {key: value for key, value in _row(each).items() if server or key != "taken"} for each in found
    )
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "against": _server(server) if server else None,
        "files": [_document(each) for each in found],
    }
    return Report((Table("", columns, rows, tuple(notes)),), lambda: document)


def _row(found: Inspected) -> dict[str, Cell]:
    state = found.state
    attention = [each for each in state.sections if isinstance(each, KvSection)]
    recurrent = [each for each in state.sections if isinstance(each, RecurrentSection)]
    return {
        "file": found.file,
        "version": state.version,
        "tokens": state.tokens,
        "cells": state.cells if state.sections else None,
        "positions": " + ".join(_positions(cells) for each in attention for cells in each.streams) or None,
        "layers": " + ".join(str(each.layers) for each in attention) or None,
        "k": _rows([tensor for each in attention for tensor in each.k]),
        "v": _rows(
            [tensor for each in attention for tensor in each.v], any(each.v_trans for each in attention)
        ),
        "rotation": next(
            (f"{each.rotation[0]}/{each.rotation[1]}" for each in attention if each.rotation), None
        ),
        "recurrent": sum(len(each.states) for each in recurrent) if recurrent else None,
        "checkpoints": len(state.checkpoints),
        "size": state.size,
        "expected": state.expected,
        "taken": found.taken,
        "verdict": state.verdict,
    }


def _positions(cells: Cells) -> str:
    if cells.first is None:
        return "none"
    odd = [
        f"{count} {name}" for count, name in ((cells.gaps, "missing"), (cells.duplicates, "twice")) if count
    ]
    return f"{cells.first}-{cells.last}" + (f" ({', '.join(odd)})" if odd else "")


def _rows(tensors: Sequence[Tensor], transposed: bool = False) -> str | None:
    kinds = dict.fromkeys(f"{type_name(each)} {each.row_bytes}" for each in tensors)
    return (", ".join(kinds) + (" transposed" if transposed else "")) or None


def _document(found: Inspected) -> dict[str, Json]:
    state = found.state
    return {
        "file": found.file,
        "verdict": state.verdict,
        "whole": state.whole,
        "size_bytes": state.size,
        "expected_bytes": state.expected,
        "read_bytes": state.read_bytes,
        "version": state.version,
        "tokens": state.tokens,
        "media": state.media,
        "sections": [_section(each) for each in state.sections],
        "checkpoints": [
            {"tokens": each.tokens, "first": each.first, "last": each.last, "bytes": each.bytes}
            for each in state.checkpoints
        ],
        "taken": found.taken,
        "objections": list(found.objections) if found.objections is not None else None,
    }


def _section(section: Section) -> Mapping[str, Json]:
    if isinstance(section, RecurrentSection):
        return {
            "kind": section.kind, "offset": section.at, "cells": section.cells, "last": section.last,
            "layers": section.layers, "states": [_tensor(each) for each in section.states],
        }  # fmt: skip
    return {
        "kind": section.kind,
        "offset": section.at,
        "mrope": section.mrope,
        "streams": [_stream(each) for each in section.streams],
        "layers": section.layers,
        "v_trans": section.v_trans,
        "n_rot_k": section.rotation[0] if section.rotation else None,
        "n_rot_v": section.rotation[1] if section.rotation else None,
        "k": [_tensor(each) for each in section.k],
        "v": [_tensor(each) for each in section.v],
    }


def _stream(cells: Cells) -> Mapping[str, Json]:
    return {
        "cells": cells.count, "first": cells.first, "last": cells.last, "gaps": cells.gaps,
        "duplicates": cells.duplicates, "sequences": list(cells.sequences),
    }  # fmt: skip


def _tensor(tensor: Tensor) -> Mapping[str, Json]:
    return {"type": type_name(tensor), "row_bytes": tensor.row_bytes}


def _server(server: Expectation) -> Mapping[str, Json]:
    return {
        "name": server.name,
        "layers": len(server.rows),
        "types": [TYPE_NAMES.get(each, str(each)) for each in server.types],
        "v_trans": server.v_trans,
        "cache_kind": server.kind,
        "ctx": server.ctx,
    }
