"""Who holds a device node open: real processes with real devices, and what a user without rights may see."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zcopy.host import Host, User, Users
from zcopy.host.files import Root
from zcopy.host.quiet import use_warnings
from zcopy.host.users import read_users, users_text

# Nobody has these open by accident, as everybody has /dev/null.
NODE, OTHER = "/dev/full", "/dev/zero"
LIVE = Root(Path("/"))

HOLD = """
import os, sys
held = [os.open(path, os.O_RDWR) for path in sys.argv[1:]]
print("ready", flush=True)
sys.stdin.read()
"""


# Python itself may lie where nobody could start it. A process that has changed its user is closed to its new user too,
# until it is dumpable again.
NOBODY = """
import ctypes, os
os.setgroups([]); os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
"""
RENAMED = "import ctypes\nctypes.CDLL(None).prctl(15, b'a\\x1b[1m\\nb', 0, 0, 0)\n"


@contextmanager
def holding(*paths: str, first: str = "") -> Iterator[int]:
    """A process that has these files open after doing what comes `first`; its pid."""
    command = [sys.executable, "-c", first + HOLD, *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child.pid
        child.stdin.close()


def test_a_process_that_has_a_node_open_is_named() -> None:
    with holding(NODE, NODE, OTHER) as pid:
        (found,) = read_users(LIVE, [NODE]).of([NODE])
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        both = next(user for user in read_users(LIVE, [OTHER, NODE]).found if user.pid == pid)
    assert found == User(pid, comm, (NODE,))
    assert both.nodes == (NODE, OTHER)
    assert read_users(LIVE, [NODE]).found == ()


def test_several_processes_come_in_the_order_of_their_pids() -> None:
    with holding(NODE) as one, holding(NODE) as two:
        assert [user.pid for user in read_users(LIVE, [NODE]).found] == sorted((one, two))


def test_this_process_is_not_one_of_them() -> None:
    fd = os.open(NODE, os.O_RDWR)
    try:
        assert read_users(LIVE, [NODE]).found == ()
    finally:
        os.close(fd)


def test_what_is_no_device_or_not_there_has_no_users(tmp_path: Path) -> None:
    file = tmp_path / "card0"
    file.touch()
    with holding(str(file)):
        assert read_users(LIVE, [str(file), "/dev/absent", "/dev/shm"]) == Users()
    assert read_users(LIVE, []) == Users()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_a_node_of_another_name_is_the_same_device() -> None:
    """As a container may have it: the number decides."""
    device = os.stat(NODE).st_rdev  # noqa: PTH116
    twin = Path("/dev/zcopy-test-node")
    os.mknod(twin, stat.S_IFCHR | 0o600, device)
    try:
        with holding(str(twin)) as pid:
            assert [user.pid for user in read_users(LIVE, [NODE]).found] == [pid]
    finally:
        twin.unlink()


IMPORTS = """
import sys
from pathlib import Path
from zcopy.host.files import Root
from zcopy.host.users import read_users
"""
LOOK = """
found = read_users(Root(Path("/")), [sys.argv[1]])
print([user.pid for user in found.found], found.hidden)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_processes_that_may_not_be_looked_into_are_counted() -> None:
    with holding(NODE) as _roots, holding(NODE, first=NOBODY) as own:
        command = [sys.executable, "-c", IMPORTS + NOBODY + LOOK, NODE]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        programs = [path for path in Path("/proc").glob("[0-9]*/cmdline") if reads(path)]
    pids, _, hidden = done.stdout.strip().rpartition(" ")
    assert pids == f"[{own}]"
    assert 1 <= int(hidden) <= len(programs)  # threads of the kernel are no users


def reads(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


def test_a_name_that_is_none_is_printable() -> None:
    with holding(NODE, first=RENAMED):
        (found,) = read_users(LIVE, [NODE]).found
    assert found.command == "a\ufffd[1m"


def test_users_as_words() -> None:
    users = [User(number, name, (NODE,)) for number, name in enumerate(("Xorg", "ollama", "", "d", "e"), 1)]
    assert users_text([]) == ""
    assert users_text(users[:3]) == "Xorg (pid 1), ollama (pid 2), ? (pid 3)"
    assert users_text(users) == "Xorg (pid 1), ollama (pid 2), ? (pid 3) and 2 more"


def test_a_device_in_use_is_a_warning() -> None:
    nodes = {"cpu": (), "gpu0": ("/dev/dri/card1", "/dev/dri/renderD128"), "npu0": ("/dev/accel/accel0",)}
    users = Users((User(31, "ollama", ("/dev/dri/renderD128",)),))
    (warning,) = use_warnings(nodes, users)
    assert warning.code == "device-in-use"
    assert warning.text == "gpu0 is held open by ollama (pid 31): stop that, or measure when it is idle"
    (warning,) = use_warnings(nodes, Users(users.found, 7))
    assert warning.text.endswith("; 7 more processes could only be looked into by root")
    assert list(use_warnings(nodes, Users((), 7))) == []


def test_a_box_says_which_of_its_devices_are_in_use(tree: Callable[[str], Path]) -> None:
    """A made box whose card is the node that a real process has open."""
    root = tree(
        "sys/class/drm/card0/device -> ../../../devices/gpu\nsys/devices/gpu/driver -> drivers/amdgpu\n"
    )
    (root / "dev/dri").mkdir(parents=True)
    (root / "dev/dri/card0").symlink_to(NODE)
    (root / "proc").symlink_to("/proc")
    host = Host.read(root)
    assert host.use_warnings(["cpu", "gpu0"]) == ()
    with holding(NODE) as pid:
        (warning,) = host.use_warnings(["cpu", "gpu0"])
        assert host.use_warnings(["cpu", "npu0"]) == ()
    assert warning.text.startswith("gpu0 is held open by ")
    assert f"(pid {pid})" in warning.text


def test_looking_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        read_users(LIVE, [NODE])
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.kernel
def test_a_card_that_another_process_has_open() -> None:
    """In the kernel guest, where the card is a real one."""
    host = Host.read()
    (card,) = (device for device in host.of_kind("drm-card") if device.lock == "gpu0")
    assert host.use_warnings(["gpu0"]) == ()
    with holding(card.path) as pid:
        (warning,) = host.use_warnings(["cpu", "gpu0"])
    assert f"(pid {pid})" in warning.text
