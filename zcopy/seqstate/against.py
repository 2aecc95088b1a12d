"""Whether a server of a known model and cache would take a state, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zcopy.seqstate.sections import KvSection, RecurrentSection, Tensor
from zcopy.seqstate.state import StateFile

TYPE_NAMES: Final = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl", 30: "bf16",
}  # fmt: skip
"""ggml's types that a cache can have (ggml.h, enum ggml_type)."""
_VERSION: Final = 4  # what servers of today write and take


@dataclass(frozen=True, slots=True)
class Expectation:
    """A server's cache: rows of each layer that has attention (K and V, in bytes), types by ggml's number."""

    name: str
    rows: tuple[tuple[int, int], ...]
    types: tuple[int, int]
    v_trans: bool
    rotated: tuple[bool, bool]
    kind: str = "full"  # of its caches: full, window or recurrent
    ctx: int | None = None


def objections(state: StateFile, server: Expectation) -> list[str]:
    """Why the server would not take the state, each in one sentence without an end; none: it would."""
    if not state.whole:
        return ["the file is not whole: a server that is given it may end at once"]
    found = list(_general(state, server))
    attention = [each for each in state.sections if isinstance(each, KvSection)]
    if any(section.cells for section in attention):
        found += _layers(attention, server)
        for section in attention:
            found += _layout(section, server)
    return list(dict.fromkeys(found))


def _general(state: StateFile, server: Expectation) -> Iterator[str]:
    if state.version != _VERSION:
        yield f"it is of version {state.version}, servers of today take {_VERSION}"
    if server.ctx is not None and state.cells > server.ctx:
        yield f"it has {state.cells} cells, the server {server.ctx}"
    yield from _parts(state, server)


def _parts(state: StateFile, server: Expectation) -> Iterator[str]:
    recurrent = any(isinstance(section, RecurrentSection) for section in state.sections)
    windowed = sum(isinstance(section, KvSection) for section in state.sections) > 1
    if recurrent != (server.kind == "recurrent"):
        yield f"it has {_some(recurrent, 'recurrent states')}, {server.name} has {_some(not recurrent, 'such')}"
    if windowed != (server.kind == "window"):
        yield f"it has {_some(windowed, 'cells of a window')}, {server.name} has {_some(not windowed, 'such')}"


def _some(there: bool, what: str) -> str:
    return what if there else f"no {what}"


def _layers(attention: list[KvSection], server: Expectation) -> Iterator[str]:
    k = [each.row_bytes for section in attention for each in section.k]
    v = [each.row_bytes for section in attention for each in section.v]
    if len(k) != len(server.rows):
        yield f"it has {len(k)} layers with attention, {server.name} has {len(server.rows)}"
        return
    # With a window the layers stand in two sections, not in the model's order.
    order = sorted if len(attention) > 1 else list
    for which, ours, theirs in (("K", k, 0), ("V", v, 1)):
        expected = [row[theirs] for row in server.rows]
        if order(ours) != order(expected):
            one, other = next(
                pair for pair in zip(order(ours), order(expected), strict=True) if pair[0] != pair[1]
            )
            yield f"its {which} rows have {one} bytes, those of {server.name} {other}"


def _layout(section: KvSection, server: Expectation) -> Iterator[str]:
    for which, tensors, expected in (("K", section.k, server.types[0]), ("V", section.v, server.types[1])):
        for name in sorted({type_name(each) for each in tensors} - {TYPE_NAMES.get(expected, str(expected))}):
            yield f"its {which} rows are {name}, the server's {TYPE_NAMES.get(expected, expected)}"
    if section.v_trans is not None and section.v_trans != server.v_trans:
        yield f"its V is {_turned(section.v_trans)}, the server's is {_turned(server.v_trans)}"
    for which, angle, rotated in zip("KV", section.rotation or (0, 0), server.rotated, strict=True):
        if bool(angle) != rotated:
            yield f"its {which} rows are {'' if angle else 'not '}rotated, the server's are{'' if rotated else ' not'}"


def _turned(transposed: bool) -> str:
    return "transposed" if transposed else "not transposed"


def type_name(tensor: Tensor) -> str:
    """ggml's name of a tensor's type, or its number."""
    return TYPE_NAMES.get(tensor.type, f"type {tensor.type}")
