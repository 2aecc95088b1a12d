"""What a history may do where it is: computed once by the command line, then handed down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Where the store is and whom its files belong to.

    `spools` are the folders for runs that could not be saved, the first usable one is taken. `owner` is the
    (uid, gid) that new files are given to, None where they are simply ours. `timeout` is how many seconds a
    write waits for other processes'.
    """

    db: Path
    spools: tuple[Path, ...]
    owner: tuple[int, int] | None = None
    timeout: float = 30.0


def history_settings(db: Path, environ: Mapping[str, str]) -> HistorySettings:
    """The settings for the store at `db`; of the environment, TMPDIR matters."""
    path = db.expanduser().absolute()
    return HistorySettings(path, _spools(path, environ.get("TMPDIR") or "/tmp"), _owner(path))


def _spools(db: Path, temporary: str) -> tuple[Path, ...]:
    """Beside the store, else in the temporary folders, where the name tells users and stores apart."""
    mark = blake2b(os.fsencode(db), digest_size=6).hexdigest()
    private = f"zcopy-spool-{os.geteuid()}-{mark}"
    folders = dict.fromkeys((Path(temporary).absolute(), Path("/tmp")))
    return (db.with_name(f"{db.name}.spool"), *(folder / private for folder in folders))


def _owner(db: Path) -> tuple[int, int] | None:
    """For root: whose folder the store is in, so that sudo leaves no root's files in a user's home."""
    if os.geteuid() != 0:
        return None
    for folder in db.parents:
        try:
            facts = folder.stat()
        except OSError:
            continue
        return (facts.st_uid, facts.st_gid) if facts.st_uid else None
    return None
