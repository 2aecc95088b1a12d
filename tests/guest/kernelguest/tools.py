"""Programs of the host: found by name, run, and blamed in one line."""

import os
import shutil
import subprocess
from pathlib import Path

from .errors import GuestError

# Only what Debian does not install everywhere: the hint in the error message.
PACKAGES = {
    "busybox": "busybox-static",
    "depmod": "kmod",
    "modprobe": "kmod",
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
    "xz": "xz-utils",
}

# depmod and modprobe are not on the PATH of an ordinary user.
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path() -> str:
    """The caller's PATH plus the sbin folders."""
    own = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*own, *(folder for folder in SBIN if folder not in own)])


def need(program: str) -> str:
    found = shutil.which(program, path=search_path())
    if found is None:
        package = PACKAGES.get(program, program)
        raise GuestError(f"{program} is missing: apt-get install {package}")
    return found


def run(*argv: str, cwd: Path | None = None) -> bytes:
    """The program's stdout. Its exit code and last line of stderr are the error."""
    command = [need(argv[0]), *argv[1:]]
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said else "no message"
        raise GuestError(f"{argv[0]} failed ({done.returncode}): {why}")
    return done.stdout


def text(*argv: str, cwd: Path | None = None) -> str:
    return run(*argv, cwd=cwd).decode(errors="replace")
