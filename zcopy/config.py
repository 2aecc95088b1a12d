"""The configuration file: which keys it knows, reading it, changing one of them.

TOML. Nothing here reads the environment: callers hand in the path and the home folder.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zcopy import limits
from zcopy.draft import Draft
from zcopy.errors import OutputError, UsageError

FORMATS: Final = ("table", "tsv", "csv", "json", "md")


@dataclass(frozen=True, slots=True)
class Key:
    """A known key. NAME at the end of `name` stands for any name in that section."""

    name: str
    what: str
    meaning: str

    def covers(self, dotted: str) -> bool:
        """Whether `dotted` is this key, or one of its section."""
        section, _, last = self.name.rpartition(".")
        if last != "NAME":
            return dotted == self.name
        head, _, name = dotted.partition(".")
        return head == section and bool(name)


KEYS: Final = (
    Key("lock_dir", "path", "the folder of the device locks, before the built-in ones; ZCOPY_LOCK_DIR wins"),
    Key("locks.NAME", "path", "a site's own lock file for the device NAME"),
    Key("aliases.NAME", "text", "another name for a device: with igpu = \"gpu0\", igpu means gpu0"),
    Key("history.db", "path", "the history; --db and ZCOPY_DB win"),
    Key("output.format", "format", "the format on a terminal when --format is not given (table)"),
    Key("output.pipe_format", "format", "the format elsewhere when --format is not given (tsv)"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says, checked; None and empty where it says nothing."""

    lock_dir: Path | None = None
    locks: Mapping[str, Path] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    db: Path | None = None
    format: str | None = None
    pipe_format: str | None = None
    unknown: tuple[str, ...] = ()


def known(dotted: str) -> Key | None:
    """The known key that `dotted` is, or None."""
    return next((key for key in KEYS if key.covers(dotted)), None)


def load(path: Path, home: Path) -> Config:
    """The configuration in `path`; a missing file is an empty one.

    Raises UsageError when it does not parse (naming the line) or a value is not what its key takes.
    """
    flat = flatten(read(path))
    values = {name: _checked(name, value, path, home) for name, value in flat.items() if known(name)}
    return Config(
        lock_dir=values.get("lock_dir"),
        locks=_section(values, "locks"),
        aliases=_section(values, "aliases"),
        db=values.get("history.db"),
        format=values.get("output.format"),
        pipe_format=values.get("output.pipe_format"),
        unknown=tuple(name for name in flat if not known(name)),
    )


def read(path: Path) -> dict[str, Any]:
    """The file's tree; {} when there is no file. Raises UsageError, with the line, when it does not parse."""
    try:
        # Not blocking: a FIFO in its place is said to be none, and not waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"cannot read the configuration {path}: it is no file")
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {limits.reason(error)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", "correct it or move it away") from error


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"locks": {"gpu0": …}}`` as ``{"locks.gpu0": …}``."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def set_value(path: Path, dotted: str, text: str, home: Path) -> Path | None:
    """Set one known key (an empty `text` removes it) and write the file atomically; other keys stay.

    Returns the backup of the old file where rewriting it loses comments, else None. Raises UsageError for an
    unknown key, a wrong value or a file that does not parse, OutputError when it cannot be written.
    """
    if known(dotted) is None:
        raise UsageError(f"no configuration key {dotted!r}", "'zcopy config show' lists them")
    tree = read(path)
    _store(tree, dotted, _checked(dotted, text, path, home) and text)
    return _write(path, tree)


def _section(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    prefix = f"{section}."
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _checked(dotted: str, value: object, path: Path, home: Path) -> Any:
    """The value as its key wants it: a Path for paths, else the text. An empty text is None."""
    key = known(dotted)
    if not isinstance(value, str):
        raise UsageError(f"{path}: {dotted} must be a string, not {value!r}")
    if not value or key is None:
        return None
    if key.what == "format" and value not in FORMATS:
        raise UsageError(f"{path}: {dotted} must be one of {', '.join(FORMATS)}, not {value!r}")
    if key.what != "path":
        return value
    expanded = home / value[2:] if value.startswith("~/") else Path(value)
    if not expanded.is_absolute():
        raise UsageError(f"{path}: {dotted} must be an absolute path or begin with ~/, not {value!r}")
    return expanded


def _store(tree: dict[str, Any], dotted: str, text: str | None) -> None:
    section, _, name = dotted.partition(".") if "." in dotted else ("", "", dotted)
    table = tree.setdefault(section, {}) if section else tree
    if not isinstance(table, dict):
        raise UsageError(f"{section!r} in the configuration is not a section")
    if text:
        table[name] = text
    else:
        table.pop(name, None)


def _write(path: Path, tree: Mapping[str, Any]) -> Path | None:
    import tomli_w

    text = tomli_w.dumps(tree).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()
        with Draft(target) as draft:
            backup = _keep_comments(target)
            draft.commit(text)
    except OSError as error:
        raise OutputError(f"cannot write the configuration {path}: {limits.reason(error)}") from error
    return backup


def _keep_comments(target: Path) -> Path | None:
    """Copy a file that has comments beside itself, since writing TOML anew drops them."""
    if not target.exists() or b"#" not in (old := target.read_bytes()):
        return None
    backup = target.with_name(f"{target.name}.bak")
    backup.write_bytes(old)
    return backup
