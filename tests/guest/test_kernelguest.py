"""The lane's own tests. Those that boot need ZCOPY_GUEST_BOOT=1 and minutes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from kernelguest import choose, cli, cpio, initrd, kernels, lane, streams  # noqa: E402
from kernelguest.errors import GuestError  # noqa: E402
from kernelguest.mirror import Mirror  # noqa: E402
from kernelguest.request import Request, Share  # noqa: E402

SERIES = ("6.12", "7.3")

boots = pytest.mark.skipif(
    os.environ.get("ZCOPY_GUEST_BOOT") != "1",
    reason="boots virtual machines: set ZCOPY_GUEST_BOOT=1",
)


def test_newest_compares_numbers_and_ignores_other_flavours() -> None:
    names = [
        "linux-image-6.12.9+deb13-amd64",
        "linux-image-6.12.115+deb13-amd64",
        "linux-image-6.12.115+deb13.1-amd64",
        "linux-image-6.12.200+deb13-cloud-amd64",
        "linux-image-6.12.200+deb13-rt-amd64",
        "linux-image-6.12.200+deb13-amd64-dbg",
        "linux-image-6.120.1+deb13-amd64",
    ]
    assert choose.newest("6.12", names) == "6.12.115+deb13.1-amd64"


def test_newest_says_what_is_missing() -> None:
    with pytest.raises(GuestError, match=r"no linux-image-7\.3"):
        choose.newest("7.3", ["linux-image-6.12.9+deb13-amd64"])


def test_packages_follow_only_the_same_version() -> None:
    kver = "7.3.4+deb13-amd64"
    depends = {
        f"linux-image-{kver}": f"dracut | x, linux-binary-{kver} (= 7), kmod",
        f"linux-binary-{kver}": f"linux-base-{kver} (= 7), linux-base (>= 4)",
    }
    found = choose.packages(kver, lambda name: depends.get(name, ""))
    kinds = ("image", "binary", "base")
    assert found == [f"linux-{kind}-{kver}" for kind in kinds]


def test_sources_have_security_only_where_it_is_known() -> None:
    assert "trixie-backports" in Mirror("file:/one").sources()
    assert "security" not in Mirror("file:/one").sources()
    assert "file:/two trixie-security main" in Mirror("file:/one", "file:/two").sources()


def unpacked(tmp_path: Path, *modules: str) -> kernels.Kernel:
    kernel = kernels.Kernel("7.3", tmp_path)
    (tmp_path / "kver").write_text("7.3.4\n")
    kernel.modules.mkdir(parents=True)
    lines = "".join(f"kernel/x/{name}.ko.xz: kernel/y.ko.xz\n" for name in modules)
    (kernel.modules / "modules.dep").write_text(lines)
    (kernel.modules / "modules.builtin").write_text("kernel/z/built-in.ko\n")
    return kernel


def test_resolve_takes_the_first_name_that_exists(tmp_path: Path) -> None:
    kernel = unpacked(tmp_path, "cirrus-qemu", "vivid")
    assert kernels.resolve(kernel, "cirrus-qemu|cirrus") == "cirrus-qemu"
    assert kernels.resolve(kernel, "none|vivid n_devs=1 x=2") == "vivid n_devs=1 x=2"
    assert kernels.resolve(kernel, "built_in") == "built_in"
    with pytest.raises(GuestError, match="no module qxl"):
        kernels.resolve(kernel, "qxl")


def test_cpio_makes_parents_and_pads_to_four() -> None:
    packed = cpio.archive({"a/b/c": b"12345", "d": b""})
    assert len(packed) % 4 == 0
    places = [packed.index(name) for name in (b"a\0", b"a/b\0", b"a/b/c\0", b"d\0")]
    assert places == sorted(places)
    assert packed.index(b"12345") % 4 == 0
    assert packed.count(b"070701") == 5


def test_by_line_waits_for_the_end_of_a_line() -> None:
    lines: list[bytes] = []
    write = streams.by_line(lines.append)
    for data in (b"on", b"e\ntw", b"o\nrest", b""):
        write(data)
    assert lines == [b"one\n", b"two\n", b"rest"]


def marked(*chunks: bytes) -> tuple[list[bytes], int]:
    """What a sink receives from `until`, and how often the end was announced."""
    got: list[bytes] = []
    ends: list[None] = []
    write = streams.until(b"\0end\0", got.append, lambda: ends.append(None))
    for chunk in chunks:
        write(chunk)
    return got, len(ends)


def test_until_finds_a_mark_that_was_cut() -> None:
    assert marked(b"all\0e", b"nd\0") == ([b"all"], 1)
    assert marked(b"all\0end\0") == ([b"all"], 1)


def test_until_delays_only_what_may_be_the_mark() -> None:
    assert marked(b"live") == ([b"live"], 0)
    assert marked(b"a\0", b"b") == ([b"a", b"\0b"], 0)
    assert marked(b"a\0en", b"") == ([b"a", b"\0en"], 1)


def test_command_line_quotes_and_passes_only_what_it_was_told() -> None:
    request = Request(["echo", "a b", "$x"], Path("/tmp/it's"), {"K": "1 2"})
    script = initrd.command_line(request)
    assert """cd -- '/tmp/it'"'"'s' || exit 125""" in script
    assert script.endswith("'K=1 2' echo 'a b' '$x'\n")


def test_shares_are_mounted_parents_first() -> None:
    shares = [Share(Path("/a/b"), writable=True), Share(Path("/a"))]
    assert initrd.mount_lines(shares) == "share share1 ro /a\nshare share0 rw /a/b"


def test_a_failed_guest_outranks_every_exit_code() -> None:
    assert lane.worst([0, 3]) == 3
    assert lane.worst([137, 125]) == 125


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--kernel", "6.12"],
        ["--kernel", "six", "--", "true"],
        ["--kernel", "6.12", "--share", "/nowhere", "--", "true"],
        ["--kernel", "6.12", "--kernel", "7.3", "--monitor", "x", "--", "true"],
    ],
)
def test_wrong_usage_is_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.checked(words)
    assert stopped.value.code == 2


def argv(*words: str) -> list[str]:
    return [sys.executable, str(HERE / "run.py"), *words]


def guest(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(argv(*words), capture_output=True, text=True, check=False)


@boots
def test_both_kernels_have_working_devices() -> None:
    kernels = [word for one in SERIES for word in ("--kernel", one)]
    done = guest(*kernels, "--", "python3", str(HERE / "smoke.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all devices work") == 2


@boots
@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)],
)
def test_exit_codes_come_through(series: str, script: str, code: int) -> None:
    done = guest("--kernel", series, "--", "sh", "-c", f"echo out; echo err >&2; {script}")
    assert (done.returncode, done.stdout) == (code, "out\n")
    assert done.stderr.startswith("err\n")


@boots
@pytest.mark.parametrize("series", SERIES)
def test_a_panic_is_125_and_names_itself(series: str) -> None:
    crash = "echo c > /proc/sysrq-trigger; sleep 60"
    started = time.monotonic()
    done = guest("--kernel", series, "--", "sh", "-c", crash)
    assert done.returncode == 125
    assert "Kernel panic" in done.stderr.splitlines()[-1]
    assert time.monotonic() - started < 55


@boots
def test_a_slow_reader_loses_nothing() -> None:
    script = "head -c 300000 /dev/zero; sleep 300 & exit 7"
    words = argv("--kernel", SERIES[0], "--", "sh", "-c", script)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        time.sleep(15)  # by now the command has ended, and its output is stuck
        assert tool.stdout.read() == bytes(300000)
        assert tool.wait(20) == 7


@boots
def test_the_timeout_is_125() -> None:
    done = guest("--kernel", SERIES[0], "--timeout", "15", "--", "sleep", "600")
    assert done.returncode == 125
    assert done.stderr.splitlines()[-1].endswith("killed: still running after 15 s")


@boots
def test_artefacts_are_kept_and_nothing_else(tmp_path: Path) -> None:
    script = f"echo kept > $ZCOPY_GUEST_OUT/a; echo lost > {tmp_path}/b"
    out = ("--out", str(tmp_path / "out"))
    done = guest("--kernel", SERIES[0], *out, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / SERIES[0] / "a").read_text() == "kept\n"
    assert not (tmp_path / "b").exists()


def qemu_of(pid: int) -> int | None:
    """The child of the tool, once there is one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def eventually(question: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not question() and time.monotonic() < deadline:
        time.sleep(0.1)
    return question()


def ended(pid: int) -> bool:
    """Gone, or a zombie that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@boots
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
)
def test_the_guest_dies_with_the_tool(number: int, code: int) -> None:
    words = argv("--kernel", SERIES[0], "--", "sleep", "600")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tool:
        assert eventually(lambda: qemu_of(tool.pid) is not None)
        qemu = qemu_of(tool.pid)
        assert qemu is not None
        time.sleep(2)  # setpriv has become QEMU
        tool.send_signal(number)
        assert tool.wait(20) == code
        assert eventually(lambda: ended(qemu), 10)
