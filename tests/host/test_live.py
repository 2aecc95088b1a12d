"""The machine the tests run on, and what reading it may cost."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from zcopy.host import Host

AUDITED = """
import json, sys
from pathlib import Path
from zcopy.host import Host

opened = []
def audit(event, arguments):
    if event.startswith(("subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.")):
        raise SystemExit(f"forbidden: {event}")
    if event == "open":
        opened.append(str(arguments[0]))

sys.addaudithook(audit)
host = Host.read(Path(sys.argv[1]))
read = len(opened)
host.document(), host.key(["udmabuf"]), host.quiet_warnings(), host.room()
print(json.dumps({"read": read, "all": len(opened), "dev": [o for o in opened if "/dev/" in o],
                  "modules": sorted(sys.modules)}))
"""


def audited(root: Path) -> dict[str, list[str]]:
    command = [sys.executable, "-c", AUDITED, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_this_machine() -> None:
    host = Host.read()
    assert host.kernel.release == os.uname().release
    assert host.kernel.arch == os.uname().machine
    assert host.kernel.page_size == os.sysconf("SC_PAGE_SIZE")
    assert host.cpu.count == os.cpu_count()
    assert set(host.cpu.allowed) == os.sched_getaffinity(0)
    assert host.memory.total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < host.room()[0] < host.memory.total
    json.dumps([host.document(), host.key(["udmabuf"])], allow_nan=False)


def test_no_process_no_device_no_heavy_module() -> None:
    done = audited(Path("/"))
    assert done["dev"] == []
    assert not {"numpy", "rich", "lzma", "subprocess", "zcopy.native"} & set(done["modules"])


def test_how_many_files_a_large_box_costs(box: Callable[[str], Path]) -> None:
    """Each file is 10 to 20 µs: a box of 32 CPUs stays at a few ms."""
    done = audited(box("strix-halo"))
    assert int(str(done["read"])) < 200
    assert int(str(done["all"])) < 600


def test_a_read_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        Host.read().document()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
