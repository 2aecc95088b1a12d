"""What the words of `zcopy handoff` mean: geometry, cache, kinds of memory, folders, as the probe's values."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zcopy.cli.options import split_list
from zcopy.errors import UsageError

if TYPE_CHECKING:
    from zcopy.cli.context import AppContext
    from zcopy.probes.handoff.geometry import Cache, Geometry
    from zcopy.probes.handoff.params import HandoffParams


_PATH_MAX: Final = 4096  # linux/limits.h, with the NUL


def geometry_of(app: AppContext, model: str, own: tuple[int | None, ...]) -> Geometry:
    from zcopy.probes.handoff.geometry import PRESETS, Geometry
    from zcopy.probes.handoff.model_file import read_geometry

    layers, kv_heads, head_dim, head_dim_v = own
    if any(value is not None for value in own):
        if layers is None or kv_heads is None or head_dim is None:
            raise UsageError("a geometry of your own needs --layers, --kv-heads and --head-dim")
        name = f"{layers}x{kv_heads}x{head_dim}" + (f"/{head_dim_v}" if head_dim_v else "")
        return Geometry.uniform(name, layers, kv_heads, head_dim, head_dim_v or head_dim)
    return PRESETS[model] if model in PRESETS else read_geometry(app.settings.cwd / model)


def cache_of(geometry: Geometry, type_k: str, type_v: str, v_trans: bool, rotation: tuple[int, int]) -> Cache:
    from zcopy.probes.handoff.geometry import TYPES, Cache

    names = tuple(TYPES)
    key, value = TYPES[one_of(type_k, names, "--type-k")], TYPES[one_of(type_v, names, "--type-v")]
    cache = Cache(geometry, key, value, v_trans, rotation)
    assert cache.cell_bytes  # asks every row length: one that is not whole blocks is refused here
    return cache


def command_words(command: str) -> tuple[str, ...]:
    """A command line as a shell splits it. Raises UsageError for one that is empty or ends inside quotes."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"--provider-cmd {command!r}: {error}") from error
    if not words or not words[0]:
        raise UsageError("--provider-cmd is empty")
    return words


def one_of(word: str, known: tuple[str, ...], option: str) -> str:
    if word not in known:
        raise UsageError(f"{option} {word!r} is none of {', '.join(known)}")
    return word


def kernel_of(name: str) -> str:
    from zcopy.native.rows import kernel_names

    return one_of(name, tuple(kernel_names()), "--kernel") if name else ""


def buffers_of(words: list[str] | None, host: object) -> tuple[str, ...]:
    """The kinds by name; `all` are those that this box could have, with the reason for each it does not."""
    from zcopy.buffers.registry import find, kinds, rejoined

    names = rejoined(split_list(words, "--buffer"), host)  # type: ignore[arg-type]
    if "all" in names:
        return tuple(kind.name for kind in kinds(host))  # type: ignore[arg-type]
    return tuple(find(name, host).name for name in names)  # type: ignore[arg-type]


def state_dirs_of(app: AppContext, words: list[str] | None, routes: tuple[str, ...]) -> tuple[str, ...]:
    """The folders for state files: each must be a folder, or a place for one, that can be written.

    Raises UsageError otherwise, before anything is measured; for the default only where a route needs it.
    """
    if not words:
        from platformdirs import user_cache_path

        folder = user_cache_path("zcopy")
        if "file" in routes and (fault := _fault_of(folder)):
            raise UsageError(f"state files go to {folder}: {fault}", "--state-dir names another folder")
        return (str(folder),)
    if not all(words):
        raise UsageError("--state-dir is empty")
    folders = dict.fromkeys(_named_folder(app, word) for word in words)
    for folder in folders:
        if fault := _fault_of(folder):
            raise UsageError(f"--state-dir {folder}: {fault}")
    return tuple(map(str, folders))


def _named_folder(app: AppContext, word: str) -> Path:
    try:
        return app.settings.cwd / Path(word).expanduser()
    except RuntimeError as error:  # ~NAME
        raise UsageError(f"--state-dir {word}: no such user") from error


def _fault_of(folder: Path) -> str | None:
    """Why no file can be written below `folder`, which may not be there yet; None where it can. Changes nothing."""
    above = folder
    while not os.path.lexists(above) and above != above.parent:
        above = above.parent
    if not above.is_dir():
        return f"{above} is not a folder"
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        read_only = os.statvfs(above).f_flag & os.ST_RDONLY
        return f"{above} cannot be written to: {os.strerror(errno.EROFS if read_only else errno.EACCES)}"
    longest = max(len(os.fsencode(part)) for part in folder.parts)
    fits = longest <= os.pathconf(above, "PC_NAME_MAX") and len(os.fsencode(folder)) < _PATH_MAX
    return None if fits else os.strerror(errno.ENAMETOOLONG)


def named_by_user(
    params: HandoffParams, route: list[str] | None, buffer: list[str] | None, state_dir: list[str] | None
) -> list[tuple[str, str]]:
    """What the user asked for by name (not by `all`): each must get an ok row."""
    words = split_list(buffer, "--buffer")
    named = [("route", each) for each in params.routes if each in split_list(route, "--route")]
    named += [("buffer", each) for each in params.buffers if {*each.split(",")} <= {*words}]
    if state_dir and "file" in params.routes:
        named += [("state_dir", each) for each in params.state_dirs]
    return named
