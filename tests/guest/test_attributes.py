"""Reading the monitor's page tables: which pages are a buffer's, and what must not pass."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

TOOL: Any = runpy.run_path(str(Path(__file__).with_name("attributes.py")))
# Lines as QEMU 7.2 prints them.
TLB = """info tlb
00007f0000000000: 0000000011111000 X--DA-TUW
00007f0000001000: 0000000011112000 X--DA-TUW
00007f0000002000: 0000000011113000 X--DA--UW
00007f0000003000: 0000000011114000 X--DAC-UW
00007f0000004000: 0000000011115000 X-P-A--UW
ffff888000000000: 0000000000000000 XGPDA---W
"""


def buffer(first: int, pages: int, declared: str = "write-combine") -> Any:
    return TOOL["Mapped"]("drm:card0", declared, 0x7F0000000000 + first * 4096, pages * 4096)


@pytest.mark.parametrize(
    ("first", "pages", "said"),
    [
        (0, 2, {"write-combine"}),
        (2, 1, {"cached"}),
        (3, 1, {"uncached"}),
        (4, 1, {"cached"}),
        (0, 4, {"write-combine", "cached", "uncached"}),
        (9, 4, set()),
    ],
)
def test_what_each_page_of_a_buffer_is(first: int, pages: int, said: set[str]) -> None:
    assert set(TOOL["attributes"](TLB, buffer(first, pages)).values()) == said


@pytest.mark.parametrize(
    ("mapped", "why"),
    [
        (buffer(0, 2), None),
        (buffer(0, 2, "unknown"), None),
        (buffer(0, 2, "cached"), "declared cached"),
        (buffer(0, 3), "its pages differ: ['cached', 'write-combine']"),
        (buffer(4, 2), "1 of its 2 pages are mapped"),
        (buffer(9, 2), "0 of its 2 pages are mapped"),
    ],
)
def test_what_does_not_pass(mapped: Any, why: str | None) -> None:
    assert TOOL["fault"](mapped, TOOL["attributes"](TLB, mapped)) == why
