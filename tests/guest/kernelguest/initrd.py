"""The initrd: busybox, the modules that reach the host's files, and the job."""

import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from . import cpio, tools
from .errors import GuestError
from .kernels import Kernel, module_name, resolve
from .request import Request, Share

# Without these the root cannot be mounted; virtio itself is built in.
BOOT_MODULES = ("9pnet_virtio", "9p", "overlay")

# The root does not change below a running command, so everything may be cached
# and no file has extended attributes that overlayfs would have to ask for: an
# import of a large package is thousands of small files.
ROOT_OPTIONS = "trans=virtio,version=9p2000.L,msize=512000,ro,noxattr,cache=loose"

# Shares do change. "mmap" caches nothing but what is mapped (sqlite maps).
SHARE_OPTIONS = "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"


def busybox() -> bytes:
    program = Path(tools.need("busybox")).read_bytes()
    if b"/ld-linux-x86-64.so" in program[:4096]:
        raise GuestError("busybox is dynamic: apt-get install busybox-static")
    return program


def decompressed(module: Path) -> bytes:
    if module.suffix == ".xz":
        return tools.run("xz", "-dc", str(module))
    return module.read_bytes()


def boot_modules(kernel: Kernel) -> list[Path]:
    """Files to insmod, in order: modprobe knows what depends on what."""
    files: dict[Path, None] = {}
    for name in BOOT_MODULES:
        where = ("-d", str(kernel.tree), "-S", kernel.kver)
        plan = tools.text("modprobe", *where, "--show-depends", name)
        steps = (line.split() for line in plan.splitlines())
        files.update({Path(step[1]): None for step in steps if step[0] == "insmod"})
    return list(files)


def mount_lines(shares: Sequence[Share]) -> str:
    """Parents before what is mounted inside them; tags as in machine.py."""
    lines = []
    for number, share in sorted(enumerate(shares), key=lambda one: one[1].folder):
        mode = "rw" if share.writable else "ro"
        folder = shlex.quote(str(share.folder))
        lines.append(f"share share{number} {mode} {folder}")
    return "\n".join(lines)


def settings(kernel: Kernel, mark: str) -> str:
    values = {
        "end_mark": mark,
        "guest_name": f"zcopy-guest-{kernel.series.replace('.', '-')}",
        "modprobe": tools.need("modprobe"),
        "modules_folder": str(kernel.modules.parent),
        "root_options": ROOT_OPTIONS,
        "share_options": SHARE_OPTIONS,
    }
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


def environment(request: Request) -> dict[str, str]:
    """What the command sees: nothing of the caller's but the PATH."""
    fixed = {
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LOGNAME": "root",
        "PATH": tools.search_path(),
        "SHELL": "/bin/sh",
        "TERM": "dumb",
        "USER": "root",
    }
    if request.out is not None:
        fixed["ZCOPY_GUEST_OUT"] = str(request.out)
    return {**fixed, **request.env}


def command_line(request: Request) -> str:
    pairs = [f"{key}={value}" for key, value in environment(request).items()]
    # By its path: Debian's busybox shell would run its own env, and that its own
    # python, sh and ls.
    words = [tools.need("env"), "-i", *pairs, *request.command]
    folder = shlex.quote(str(request.cwd))
    # 125 and a line: what env(1) and the lane itself say when nothing ran.
    return f"cd -- {folder} || exit 125\nexec {shlex.join(words)}\n"


def build(kernel: Kernel, request: Request, mark: str) -> bytes:
    """`mark` is what stage2.sh writes behind the last byte of each stream."""
    scripts = resources.files(__package__)
    loads = [shlex.split(resolve(kernel, module)) for module in request.modules]
    modules = [shlex.join(["load", *words]) for words in loads]
    files = {
        "init": scripts.joinpath("init.sh").read_bytes(),
        "bin/busybox": busybox(),
        "job/stage2.sh": scripts.joinpath("stage2.sh").read_bytes(),
        "job/settings": settings(kernel, mark).encode(),
        "job/shares": mount_lines(request.shares).encode(),
        "job/modules": "\n".join(modules).encode(),
        "job/command": command_line(request).encode(),
    }
    for number, module in enumerate(boot_modules(kernel)):
        name = f"modules/{number:02}-{module_name(str(module))}.ko"
        files[name] = decompressed(module)
    return cpio.archive(files)
