from collections.abc import Callable
from pathlib import Path

from zcopy.host.cgroup import memory_limits
from zcopy.host.files import Root

Tree = Callable[[str], Path]
V2 = "== proc/self/mountinfo\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n==\n"
V1 = "== proc/self/mountinfo\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n==\n"
TOP = "sys/fs/cgroup"


def found(root: Path) -> list[tuple[str, int, int]]:
    return [(each.file, each.limit, each.headroom) for each in memory_limits(Root(root))]


def test_own_group_and_every_parent(tree: Tree) -> None:
    root = tree(
        f"{V2}proc/self/cgroup = 0::/a/b\n"
        f"{TOP}/a/memory.max = 1000\n{TOP}/a/memory.current = 900\n"
        f"{TOP}/a/b/memory.max = 500\n{TOP}/a/b/memory.current = 100\n"
    )
    assert found(root) == [(f"/{TOP}/a/b/memory.max", 500, 400), (f"/{TOP}/a/memory.max", 1000, 100)]


def test_max_is_no_limit(tree: Tree) -> None:
    assert found(tree(f"{V2}proc/self/cgroup = 0::/a\n{TOP}/a/memory.max = max\n")) == []


def test_high_throttles_and_so_counts(tree: Tree) -> None:
    root = tree(f"{V2}proc/self/cgroup = 0::/a\n{TOP}/a/memory.max = max\n{TOP}/a/memory.high = 300\n")
    assert found(root) == [(f"/{TOP}/a/memory.high", 300, 300)]


def test_inactive_cache_can_be_dropped_but_not_twice(tree: Tree) -> None:
    root = tree(
        f"{V2}proc/self/cgroup = 0::/a\n{TOP}/a/memory.max = 1000\n{TOP}/a/memory.current = 900\n"
        f"{TOP}/a/memory.stat = inactive_file 5000\n"
    )
    assert found(root) == [(f"/{TOP}/a/memory.max", 1000, 1000)]


def test_over_the_limit_has_no_headroom(tree: Tree) -> None:
    root = tree(f"{V2}proc/self/cgroup = 0::/a\n{TOP}/a/memory.max = 10\n{TOP}/a/memory.current = 900\n")
    assert found(root) == [(f"/{TOP}/a/memory.max", 10, 0)]


def test_inside_a_cgroup_namespace_the_top_is_the_group(tree: Tree) -> None:
    root = tree(f"{V2}proc/self/cgroup = 0::/\n{TOP}/memory.max = 700\n")
    assert found(root) == [(f"/{TOP}/memory.max", 700, 700)]


def test_a_group_outside_of_the_namespace_shows_the_top_only(tree: Tree) -> None:
    root = tree(f"{V2}proc/self/cgroup = 0::/../../x\n{TOP}/memory.max = 700\nx/memory.max = 1\n")
    assert found(root) == [(f"/{TOP}/memory.max", 700, 700)]


def test_a_mount_of_a_subtree(tree: Tree) -> None:
    """A container without a namespace of its own: the host's path, and a mount of what is below it."""
    root = tree(
        "== proc/self/mountinfo\n30 23 0:26 /docker/id /sys/fs/cgroup ro - cgroup2 cgroup rw\n==\n"
        f"proc/self/cgroup = 0::/docker/id/sub\n{TOP}/memory.max = 800\n{TOP}/sub/memory.max = 600\n"
    )
    assert [limit for _, limit, _ in found(root)] == [600, 800]


def test_v1(tree: Tree) -> None:
    m = "sys/fs/cgroup/memory"
    root = tree(
        f"{V1}== proc/self/cgroup\n4:memory:/job\n0::/\n==\n"
        f"{m}/job/memory.limit_in_bytes = 4096\n{m}/job/memory.usage_in_bytes = 3000\n"
        f"{m}/job/memory.stat = total_inactive_file 1000\n"
        f"{m}/memory.limit_in_bytes = 9223372036854771712\n"
    )
    assert found(root) == [(f"/{m}/job/memory.limit_in_bytes", 4096, 2096)]


def test_v1_beside_other_controllers(tree: Tree) -> None:
    root = tree(
        "== proc/self/mountinfo\n35 31 0:32 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n==\n"
        "proc/self/cgroup = 4:cpu,cpuacct:/job\ncg/cpu/job/memory.limit_in_bytes = 1\n"
    )
    assert found(root) == []


def test_a_mount_point_with_a_space(tree: Tree) -> None:
    mount = "30 23 0:26 / /my\\040cg rw - cgroup2 x rw"
    root = tree(f"== proc/self/mountinfo\n{mount}\n==\nproc/self/cgroup = 0::/\n")
    (root / "my cg").mkdir()
    (root / "my cg/memory.max").write_text("123\n")
    assert found(root) == [("/my cg/memory.max", 123, 123)]
