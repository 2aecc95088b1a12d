"""The plain Python provider of docs/, with a place to tamper with what it sends."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))

import provider_example as sound

FOREVER_S = 600.0


def hang() -> None:
    time.sleep(FOREVER_S)


class Misbehaving(sound.Provider):
    """Sound, with a place to tamper with every message that it sends."""

    tampers: ClassVar[int] = sound.DONE  # the kind of answer that is tampered with

    def send(self, kind: int, request: int, body: bytes) -> None:
        if kind == self.tampers:
            self.tamper(kind, request, body)
        else:
            super().send(kind, request, body)

    def tamper(self, kind: int, request: int, body: bytes) -> None:
        super().send(kind, request, body)

    def raw(self, magic: int, version: int, kind: int, size: int, request: int, body: bytes) -> None:
        self.socket.send(sound.HEAD.pack(magic, version, kind, size, request) + body)
