"""zcopy: what moves, what it costs and what stays on boxes with one DRAM."""

from __future__ import annotations

from typing import Final

# meson.build reads the version from this line, so that there is one place that says it.
__version__: Final = "0.1.0"
