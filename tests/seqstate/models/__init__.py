"""Random models of every kind of cache that llama.cpp saves, as small as can be.

Each function writes one GGUF. The vocabulary and what layers have in common are those of tests/probes/llama/toys.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import attention, parts, recurrent

MODELS: dict[str, Callable[[Path], Path]] = {
    "full": attention.full,
    "window": parts.toys.windowed,
    "hybrid": parts.toys.hybrid,
    "mrope": attention.mrope,
    "unequal": attention.unequal,
    "shared": attention.shared,
    "latent": attention.latent,
    "indexed": attention.indexed,
    "short_convolution": recurrent.short_convolution,
    "recurrent": recurrent.recurrent,
    "mrope_hybrid": recurrent.mrope_hybrid,
    "indexed_hybrid": recurrent.indexed_hybrid,
}
