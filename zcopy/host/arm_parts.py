"""Names of Arm cores by implementer and part number, as MIDR_EL1 and /proc/cpuinfo give them (Arm's TRMs)."""

from __future__ import annotations

from typing import Final

_ARM: Final = {
    0xD03: "Cortex-A53", 0xD04: "Cortex-A35", 0xD05: "Cortex-A55", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72",
    0xD09: "Cortex-A73", 0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76", 0xD0C: "Neoverse-N1", 0xD0D: "Cortex-A77",
    0xD0E: "Cortex-A76AE", 0xD40: "Neoverse-V1", 0xD41: "Cortex-A78", 0xD42: "Cortex-A78AE",
    0xD44: "Cortex-X1", 0xD46: "Cortex-A510", 0xD47: "Cortex-A710", 0xD48: "Cortex-X2", 0xD49: "Neoverse-N2",
    0xD4B: "Cortex-A78C", 0xD4D: "Cortex-A715", 0xD4E: "Cortex-X3", 0xD4F: "Neoverse-V2",
    0xD80: "Cortex-A520", 0xD81: "Cortex-A720", 0xD82: "Cortex-X4", 0xD84: "Neoverse-V3",
    0xD85: "Cortex-X925", 0xD87: "Cortex-A725",
}  # fmt: skip
_OTHERS: Final = {(0x4E, 0x004): "Carmel", (0x51, 0x001): "Oryon", (0xC0, 0xAC3): "Ampere-1"}


def core_name(implementer: int, part: int) -> str:
    """``Cortex-A76`` of (0x41, 0xd0b); the two numbers themselves where the core is not in the list."""
    named = _ARM.get(part) if implementer == 0x41 else _OTHERS.get((implementer, part))
    return named or f"core {implementer:#04x}:{part:#05x}"
