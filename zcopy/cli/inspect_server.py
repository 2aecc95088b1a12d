"""The server that `zcopy inspect --against` asks about, from a preset or a GGUF header."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zcopy.engines.llama.caches import Caches, read_caches
from zcopy.errors import UsageError
from zcopy.probes.handoff.geometry import PRESETS
from zcopy.seqstate.against import Server
from zcopy.seqstate.sections import CACHE_TYPES

_CTX_STEP: Final = 256  # a server rounds the cells that it is asked for up to a multiple of this
_F32: Final = 4  # bytes of an element of a recurrent state
_ROTATED: Final = 64  # head sizes that are a multiple of this are stored rotated where the cache is quantised


def server_of(
    against: str, folder: Path, types: tuple[str, str], v_trans: bool, streams: int, ctx: int | None
) -> Server:
    """Raises UsageError for words that name nothing, MeasurementError for a file that is not a whole GGUF header."""
    numbers = type_number("--type-k", types[0]), type_number("--type-v", types[1])
    if v_trans and CACHE_TYPES[numbers[1]].block > 1:
        raise UsageError(f"--v-trans with --type-v {types[1]}: llama.cpp has no transposed quantised V")
    caches = _preset(against) if against in PRESETS else read_caches(folder / against)
    return Server(
        name=caches.name,
        rows=tuple((_row_bytes(k, numbers[0]), _row_bytes(v, numbers[1])) for k, v in caches.rows),
        types=numbers,
        v_trans=v_trans,
        rotation=(_rotation_k(caches, numbers[0]), _rotation_v(caches.heads[1], numbers[1])),
        mrope=caches.mrope,
        window=caches.window,
        indexer=caches.indexer,
        recurrent=caches.recurrent,
        states=(caches.states[0] * _F32, caches.states[1] * _F32) if caches.states else None,
        streams=streams,
        ctx=None if ctx is None else -(-ctx // _CTX_STEP) * _CTX_STEP,
    )


def type_number(option: str, name: str) -> int:
    for number, known in CACHE_TYPES.items():
        if known.name == name:
            return number
    raise UsageError(f"{option} {name!r} is none of {', '.join(each.name for each in CACHE_TYPES.values())}")


def _preset(name: str) -> Caches:
    geometry = PRESETS[name]
    return Caches(geometry.name, geometry.rows, (geometry.head_k, geometry.head_v))


def _row_bytes(elements: int, number: int) -> int:
    known = CACHE_TYPES[number]
    blocks, rest = divmod(elements, known.block)
    if rest:
        raise UsageError(
            f"a row of {elements} elements is not whole {known.name} blocks of {known.block}: no such server"
        )
    return blocks * known.block_bytes


def _rotation_k(caches: Caches, number: int) -> int | None:
    """The size of the Hadamard matrix: the largest power of two that divides a head. Models with an indexer differ."""
    head = caches.heads[0]
    return None if caches.indexer else _rotation_v(head, number) and head & -head


def _rotation_v(head: int, number: int) -> int:
    return _ROTATED if CACHE_TYPES[number].block > 1 and head and head % _ROTATED == 0 else 0
