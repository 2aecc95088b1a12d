from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from zcopy.host import Host

HOST_TESTS = Path(__file__).parents[1] / "host/conftest.py"
# Enough of a machine for the buffer kinds: one of everything they look for.
EVERYTHING = """
== etc/group
render:x:992:
==
sys/class/dma_heap/system/dev = 250:0
dev/dma_heap/system mode 0600
sys/class/misc/udmabuf/dev = 10:125
dev/udmabuf mode 0660
sys/module/udmabuf/parameters/size_limit_mb = 64
sys/class/drm/card7/dev = 226:7
sys/class/drm/card7/device -> ../../../devices/faux/vgem
sys/devices/faux/vgem/driver -> ../../../bus/faux/drivers/faux_driver
sys/bus/faux/drivers/faux_driver/bind = 0
sys/module/vgem/refcnt = 0
dev/dri/card7 mode 0660
"""


@pytest.fixture
def real() -> Host:
    """This box."""
    return Host.read()


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Host]:
    """The Host of a described machine (tests/hosts/README.md says how), in a folder of that name."""
    build = runpy.run_path(str(HOST_TESTS))["build"]
    return lambda text, name="box": Host.read(build(text, tmp_path / name))


@pytest.fixture
def everything(tree: Callable[[str], Host]) -> Host:
    """A machine with every device that a buffer kind looks for."""
    return tree(EVERYTHING)


@pytest.fixture
def stranger() -> Callable[[Host, str], Host]:
    """The same machine as a user sees it who is in none of its groups; its nodes belong to the named group."""

    def seen(host: Host, group: str) -> Host:
        closed = [
            replace(each, node=each.node and replace(each.node, open_=False, owner="root", group=group))
            for each in host.devices
        ]
        host.__dict__["devices"] = tuple(closed)  # where the cached property keeps it
        return host

    return seen


@pytest.fixture
def cloexec() -> Callable[[int], bool]:
    """Whether a descriptor is closed by exec."""
    return lambda fd: not os.get_inheritable(fd)
