"""The cache maintenance of accelerators' drivers. There is no such device here: the native calls are simulated."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from zcopy.native._zc import ffi, lib

from zcopy.native import device, fds
from zcopy.native.calls import NativeError

SIZE = 8192


class Simulated:
    """The native module with the driver's calls written down instead of made."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answer = 17

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("zc_"):
            return getattr(lib, name)

        def call(node: int, _bo: Any, *rest: Any) -> int:
            os.fstat(node)  # which must be open
            self.calls.append((name.removeprefix("zc_"), *rest))
            return self.answer

        return call


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    made = Simulated()
    monkeypatch.setattr(device, "lib", made)
    return made


@pytest.fixture
def bo() -> Callable[[int], device.Bo]:
    """A memfd in a buffer's place."""
    return lambda node: device.Bo(
        node, ffi.new("zc_bo *", {"size": SIZE, "handle": 3, "fd": fds.memfd("x", SIZE)})
    )


SYNCS = {
    "rknpu_sync": (device.RknpuSync, True),
    "amdxdna_sync": (device.AmdxdnaSync, True),
    "rocket_sync": (device.RocketSync, False),
}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", SYNCS)
def test_only_reading_before_and_having_written_after_need_a_call(
    name: str, simulated: Simulated, bo: Callable[[int], device.Bo]
) -> None:
    sync, ranged = SYNCS[name]
    node = os.open("/dev/null", os.O_RDWR)
    with device.mapped(bo(node), sync) as region:
        os.close(node)  # the region keeps one of its own
        assert (region.synced, region.ranged) == (True, ranged)
        taken = [
            region.sync(end=end, read=read, write=write, offset=4096, size=64)
            for end in (False, True)
            for read in (False, True)
            for write in (False, True)
        ]
    assert taken == [0, 0, 17, 17, 0, 17, 0, 17]
    range_ = (4096, 64) if ranged else ()
    assert simulated.calls == [
        *[(name, lib.ZC_FROM_DEVICE, *range_)] * 2,
        *[(name, lib.ZC_TO_DEVICE, *range_)] * 2,
        ("bo_close",),
    ]


@pytest.mark.parametrize("name", SYNCS)
def test_a_range_is_cut_to_the_buffer_before_the_driver_sees_it(
    name: str, simulated: Simulated, bo: Callable[[int], device.Bo]
) -> None:
    with device.mapped(bo(0), SYNCS[name][0]) as region:
        assert region.sync(end=True, read=False, write=True, offset=SIZE, size=64) == 0
        region.sync(end=True, read=False, write=True, offset=4096, size=1 << 40)
    cut = (4096, 4096) if SYNCS[name][1] else ()
    assert simulated.calls == [(name, lib.ZC_TO_DEVICE, *cut), ("bo_close",)]


@pytest.mark.usefixtures("nothing_left")
def test_a_driver_that_refuses_is_told(simulated: Simulated, bo: Callable[[int], device.Bo]) -> None:
    with device.mapped(bo(0), device.RknpuSync) as region:
        simulated.answer = -22
        with pytest.raises(NativeError, match="Invalid argument"):
            region.begin()


@pytest.mark.usefixtures("nothing_left")
def test_without_maintenance_the_handle_ends_at_once(
    simulated: Simulated, bo: Callable[[int], device.Bo]
) -> None:
    with device.mapped(bo(0), None) as region:
        assert simulated.calls == [("bo_close",)]
        region.view()[0] = 1
