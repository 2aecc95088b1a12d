from collections.abc import Callable
from pathlib import Path

from zcopy.host.files import Root
from zcopy.host.memory import read_memory
from zcopy.units import GIB, MIB

Tree = Callable[[str], Path]


def meminfo(*lines: str) -> str:
    return "\n".join(("== proc/meminfo", *lines, "==", ""))


def room(root: Path) -> tuple[int, str]:
    return read_memory(Root(root)).room()


def test_a_part_is_kept_back_within_bounds(tree: Tree) -> None:
    assert room(tree(meminfo("MemAvailable: 1048576 kB"))) == (GIB - GIB // 16, "MemAvailable")


def test_little_memory_keeps_16_mib(tree: Tree) -> None:
    assert room(tree(meminfo("MemAvailable: 32768 kB")))[0] == 16 * MIB


def test_nothing_left_is_zero(tree: Tree) -> None:
    assert room(tree(meminfo("MemAvailable: 1024 kB")))[0] == 0


def test_much_memory_keeps_512_mib(tree: Tree) -> None:
    assert room(tree(meminfo("MemAvailable: 104857600 kB")))[0] == 100 * GIB - 512 * MIB


def test_strict_overcommit_limits(tree: Tree) -> None:
    text = meminfo("MemAvailable: 104857600 kB", "CommitLimit: 2097152 kB", "Committed_AS: 1048576 kB")
    kept = GIB // 16
    root = tree(text + "proc/sys/vm/overcommit_memory = 2\n")
    assert room(root) == (GIB - kept, "CommitLimit (vm.overcommit_memory=2)")
    (root / "proc/sys/vm/overcommit_memory").write_text("0\n")
    assert room(root)[1] == "MemAvailable"


def test_the_smallest_of_all_limits_is_named(tree: Tree) -> None:
    root = tree(
        meminfo("MemAvailable: 104857600 kB")
        + "== proc/self/mountinfo\n30 23 0:26 / /cg rw - cgroup2 x rw\n==\n"
        "proc/self/cgroup = 0::/a\ncg/a/memory.max = 1073741824\ncg/a/memory.current = 0\n"
    )
    assert room(root) == (GIB - GIB // 16, "/cg/a/memory.max")
