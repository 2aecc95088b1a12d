from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from zcopy.native import fds
from zcopy.native.region import Region


@pytest.fixture
def region() -> Iterator[Callable[[int], Region]]:
    """New sealed memfd regions of so many bytes, closed at the end."""
    made: list[Region] = []

    def new(size: int) -> Region:
        made.append(Region(fds.memfd("zcopy-test", size), size))
        return made[-1]

    yield new
    for each in made:
        each.close()
