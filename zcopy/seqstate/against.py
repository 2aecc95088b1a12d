"""Whether a server of a known model and cache would take a state, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zcopy.seqstate.orders import RECURRENT
from zcopy.seqstate.sections import CACHE_TYPES, KvSection, RecurrentSection
from zcopy.seqstate.state import StateFile

_VERSION: Final = 4  # what servers of today write and take


@dataclass(frozen=True, slots=True)
class Server:
    """A server's caches: rows of each layer with attention (K and V, in bytes; a V of 0 is none), types by number.

    `rotation`: of K and V, None where it is not known. `mrope`: positions of more than one number. `window`,
    `indexer`: layers with a sliding window, and the indexer of sparse attention, have a cache of their own.
    `recurrent`: how many layers a model with recurrent states has; None: it has no such states; `states`: bytes of
    the two of a layer. `streams`: caches side by side, one for each slot of a server that does not share one among
    them. `ctx`: cells of each.
    """

    name: str
    rows: tuple[tuple[int, int], ...]
    types: tuple[int, int]
    v_trans: bool
    rotation: tuple[int | None, int | None]
    mrope: bool = False
    window: bool = False
    indexer: bool = False
    recurrent: int | None = None
    states: tuple[int, int] | None = None
    streams: int = 1
    ctx: int | None = None


def objections(state: StateFile, server: Server) -> list[str]:
    """Why the server would not take the state, each in one sentence without an end; none: it would.

    What is missing or too much behind the sections is no objection: checkpoints that are cut are ignored, and bytes
    behind them are not read.
    """
    if not state.usable:
        return ["it is cut: a server that is given it may end at once" if state.cut else state.verdict]
    attention = _attention(state)
    found = [*_general(state, server), *_parts(state, server), *_streams(attention, server)]
    if any(section.cells for section in attention):
        found += _layers(attention, server)
        for section in attention:
            found += _layout(section, server)
    return list(dict.fromkeys(found))


def _attention(state: StateFile) -> list[KvSection]:
    """The sections of K and V, without an indexer's."""
    pairs = zip(state.roles, state.sections, strict=True)
    return [
        section
        for role, section in pairs
        if isinstance(section, KvSection) and role in ("attention", "window")
    ]


def _general(state: StateFile, server: Server) -> Iterator[str]:
    if state.version != _VERSION:
        yield f"it is of version {state.version}, servers of today take {_VERSION}"
    if server.ctx is None:
        return
    if state.cells > server.ctx:
        yield f"it has {state.cells} cells, the server {server.ctx}"
    elif (state.tokens or 0) > server.ctx:
        yield f"it is of {state.tokens} tokens, the server has {server.ctx} cells"


def _parts(state: StateFile, server: Server) -> Iterator[str]:
    states = [each for each in state.sections if isinstance(each, RecurrentSection)]
    recurrent = server.recurrent is not None
    if bool(states) != recurrent:
        yield f"it has {_some(bool(states), 'recurrent states')}, {server.name} has {_some(recurrent, 'such')}"
    elif states:
        yield from _recurrent(states[0], server)
    yield from _caches(state, server)


def _caches(state: StateFile, server: Server) -> Iterator[str]:
    count = len(state.sections) - state.roles.count(RECURRENT)
    expected = bool(server.rows) + server.window + server.indexer
    if not state.cells and count != expected:  # empty ones cannot be told apart
        yield f"it has {count} cache{'' if count == 1 else 's'} of K and V, {server.name} has {expected}"
    elif state.cells:
        for what, role, theirs in (
            ("cells of a window", "window", server.window),
            ("keys of an indexer", "indexer", server.indexer),
        ):
            if (role in state.roles) != theirs:
                yield f"it has {_some(not theirs, what)}, {server.name} has {_some(theirs, 'such')}"


def _recurrent(section: RecurrentSection, server: Server) -> Iterator[str]:
    if section.layers != server.recurrent:
        yield f"its recurrent states are of {section.layers} layers, {server.name} has {server.recurrent}"
    ours = section.states[0].row_bytes, section.states[-1].row_bytes
    if server.states and ours != server.states:
        yield (
            f"its recurrent states have {ours[0]} and {ours[1]} bytes,"
            f" those of {server.name} {server.states[0]} and {server.states[1]}"
        )


def _some(there: bool, what: str) -> str:
    return what if there else f"no {what}"


def _streams(attention: list[KvSection], server: Server) -> Iterator[str]:
    streams = len(attention[0].streams) if attention else server.streams
    if streams != server.streams:
        yield f"it is of {streams} stream{'' if streams == 1 else 's'}, the server has {server.streams}"


def _layers(attention: list[KvSection], server: Server) -> Iterator[str]:
    k = [each.row_bytes for section in attention for each in section.k]
    v = [each.row_bytes for section in attention for each in section.v]
    if len(k) != len(server.rows):
        yield f"it has {len(k)} layers with attention, {server.name} has {len(server.rows)}"
        return
    keeps_v = any(row for _, row in server.rows)
    yield from _rows("K", k, [row for row, _ in server.rows], len(attention), server)
    if bool(v) != keeps_v:
        yield f"it has {_some(bool(v), 'V')}, {server.name} keeps {'it' if keeps_v else 'none'}"
    elif v:
        yield from _rows("V", v, [row for _, row in server.rows], len(attention), server)


def _rows(which: str, ours: list[int], theirs: list[int], sections: int, server: Server) -> Iterator[str]:
    # With a window the layers stand in two sections, not in the model's order.
    order = sorted if sections > 1 else list
    for one, other in zip(order(ours), order(theirs), strict=True):
        if one != other:
            yield f"its {which} rows have {one} bytes, those of {server.name} {other}"
            return


def _layout(section: KvSection, server: Server) -> Iterator[str]:
    if section.cells and section.mrope != server.mrope:
        yield f"its positions are {_positions(section.mrope)}, those of {server.name} {_positions(server.mrope)}"
    for which, tensors, expected in (("K", section.k, server.types[0]), ("V", section.v, server.types[1])):
        wanted = CACHE_TYPES[expected].name
        for name in sorted({each.type_name for each in tensors} - {wanted}):
            yield f"its {which} rows are {name}, the server's {wanted}"
    if section.v_trans is not None and section.v_trans != server.v_trans:
        yield f"its V is {_turned(section.v_trans)}, the server's is {_turned(server.v_trans)}"
    for which, ours, theirs in zip("KV", section.rotation or server.rotation, server.rotation, strict=True):
        if ours is not None and theirs is not None and ours != theirs:
            yield f"its {which} rows are {_rotated(ours)}, the server's {_rotated(theirs)}"


def _positions(mrope: bool) -> str:
    return "M-RoPE's" if mrope else "plain"


def _turned(transposed: bool) -> str:
    return "transposed" if transposed else "not transposed"


def _rotated(by: int) -> str:
    return f"rotated by {by}" if by else "not rotated"
