"""Memory that only aligned stores of a limited size may touch."""

from __future__ import annotations

import os

from zcopy.buffers.base import Buffer
from zcopy.errors import RefusedError


def strict_here(kind: Buffer) -> str | None:
    """Why neither side may touch the kind's memory by the stores that zcopy has: they all choose their size themselves.

    On arm64 an unaligned or large store, or DC ZVA, to Device memory is a bus error.
    """
    if kind.capabilities.strict and os.uname().machine == "aarch64":
        return f"{kind.name} is Device memory on arm64: ordinary and streaming stores may end in a bus error there"
    return None


def refuse_strict(kind: Buffer) -> None:
    """Raises RefusedError where no store that zcopy has is sound on the kind."""
    if why := strict_here(kind):
        raise RefusedError(why)
