"""Inspected files as a table and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zcopy.model import Json
from zcopy.seqstate.against import Server
from zcopy.seqstate.cells import Cells
from zcopy.seqstate.sections import CACHE_TYPES, KvSection, RecurrentSection, Section, Tensor
from zcopy.seqstate.state import StateFile
from zcopy.table import Cell, Column, Kind, Report, Table

SCHEMA: Final = "zcopy.inspect/1"
_MOST_KINDS: Final = 4  # of tensors that are named in a table's cell

_COLUMNS: Final = (
    Column("file", "file", kind=Kind.ID, priority=0),
    Column("version", "version", kind=Kind.COUNT, priority=4),
    Column("tokens", "tokens", kind=Kind.COUNT, priority=2),
    Column("cells", "cells", kind=Kind.COUNT, priority=1),
    Column("positions", "positions", kind=Kind.ID, priority=2),
    Column("caches", "caches", kind=Kind.ID, priority=1),
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
    """A file, and a server's objections to it; None: no server was asked about. `unread`: why there is no state."""

    file: str
    state: StateFile | None
    objections: Sequence[str] | None
    unread: str | None = None

    @property
    def taken(self) -> bool | None:
        return None if self.objections is None else not self.objections

    @property
    def verdict(self) -> str:
        return self.state.verdict if self.state else f"not read: {self.unread}"


def inspect_report(found: Sequence[Inspected], server: Server | None) -> Report:
    """One row a file; what else it may be, and why a server would not take it, follows."""
    columns = tuple(column for column in _COLUMNS if server is not None or column.key != "taken")
    keys = {column.key for column in columns}
    rows = tuple({key: value for key, value in _row(each).items() if key in keys} for each in found)
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "against": _server(server) if server else None,
        "files": [_document(each) for each in found],
    }
    return Report((Table("", columns, rows, tuple(_notes(found))),), lambda: document)


def _notes(found: Sequence[Inspected]) -> Iterator[str]:
    for each in found:
        yield from (f"{each.file}: {also}" for also in (each.state.also if each.state else ()))
        yield from (f"{each.file}: not taken: {why}" for why in each.objections or ())


def _row(found: Inspected) -> dict[str, Cell]:
    state = found.state
    if state is None:
        return {"file": found.file, "verdict": found.verdict}
    attention = [each for each in state.sections if isinstance(each, KvSection)]
    recurrent = [each for each in state.sections if isinstance(each, RecurrentSection)]
    return {
        "file": found.file,
        "version": state.version,
        "tokens": state.tokens,
        "cells": state.cells if state.sections else None,
        "positions": " + ".join(map(_positions, attention)) or None,
        "caches": " + ".join(map(_cache, state.roles, state.sections)) or None,
        "layers": " + ".join(str(each.layers) for each in attention) or None,
        "k": _kinds([tensor for each in attention for tensor in each.k]),
        "v": _kinds(
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
        "verdict": found.verdict,
    }


def _cache(role: str, section: Section) -> str:
    return f"{role} (M-RoPE)" if isinstance(section, KvSection) and section.mrope else role


def _positions(section: KvSection) -> str:
    """Of the stream that has cells; of a sequence there is but one."""
    filled = [(number, cells) for number, cells in enumerate(section.streams) if cells.count]
    among = f" in stream {{}} of {len(section.streams)}" if len(section.streams) > 1 else ""
    return ", ".join(f"{_run(cells)}{among.format(number)}" for number, cells in filled) or "none"


def _run(cells: Cells) -> str:
    odd = [
        f"{count} {name}" for count, name in ((cells.gaps, "missing"), (cells.duplicates, "twice")) if count
    ]
    return f"{cells.first}-{cells.last}" + (f" ({', '.join(odd)})" if odd else "")


def _kinds(tensors: Sequence[Tensor], transposed: bool = False) -> str | None:
    kinds = list(dict.fromkeys(tensors))
    shown = ", ".join(f"{each.type_name} {each.row_bytes}" for each in kinds[:_MOST_KINDS])
    if len(kinds) > _MOST_KINDS:
        shown += f" and {len(kinds) - _MOST_KINDS} more"
    return (shown + (" transposed" if transposed else "")) or None


def _document(found: Inspected) -> dict[str, Json]:
    state = found.state or StateFile(0, "")
    return {
        "file": found.file,
        "verdict": found.verdict,
        "whole": state.whole,
        "also": list(state.also),
        "size_bytes": state.size if found.state else None,
        "expected_bytes": state.expected,
        "expected_exact": state.exact if state.expected is not None else None,
        "read_bytes": state.read_bytes,
        "version": state.version,
        "tokens": state.tokens,
        "media": state.media,
        "caches": list(state.roles),
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
            "history_bytes": section.history,
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
    return {"type": tensor.type_name, "row_bytes": tensor.row_bytes}


def _server(server: Server) -> Mapping[str, Json]:
    return {
        "name": server.name,
        "layers": len(server.rows),
        "types": [CACHE_TYPES[each].name for each in server.types],
        "v_trans": server.v_trans,
        "mrope": server.mrope,
        "window": server.window,
        "indexer": server.indexer,
        "recurrent_layers": server.recurrent,
        "streams": server.streams,
        "ctx": server.ctx,
    }
