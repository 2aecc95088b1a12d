"""Device names: what may be one, and the order in which several are locked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from zcopy.errors import UsageError

# No slash and no leading dot (the name becomes a file name), no + = : (they separate tokens).
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")


def is_name(name: str) -> bool:
    """Whether `name` is well-formed: 1 to 32 letters, digits, dots, dashes or underscores."""
    return _NAME.fullmatch(name) is not None


def resolve(names: Iterable[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    """The devices behind `names`, each once, sorted: the order in which every process locks them.

    Raises UsageError on a name (or an alias' target) that is not well-formed, and on no name at all.
    """
    devices = {_device(name, aliases) for name in names}
    if not devices:
        raise UsageError("no device named", "name at least one, e.g. cpu or gpu0")
    return tuple(sorted(devices))


def _device(name: str, aliases: Mapping[str, str]) -> str:
    device = aliases.get(name, name)
    if is_name(device):
        return device
    shown = repr(device) if device == name else f"{device!r} (which {name!r} stands for)"
    raise UsageError(
        f"{shown} is not a device name",
        "1 to 32 letters, digits, '.', '-' or '_', such as cpu, gpu0, npu0",
    )
