"""Which packages make up the newest kernel of a series."""

import re
from collections.abc import Callable, Iterable

from .errors import GuestError


def numbers(version: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", version)]


def newest(series: str, names: Iterable[str]) -> str:
    """KVER of the newest plain amd64 image: not cloud, rt, unsigned or debug."""
    pattern = rf"linux-image-({re.escape(series)}\.[0-9.]+\+deb[0-9.]+)-amd64"
    found = [m[1] for m in (re.fullmatch(pattern, name) for name in names) if m]
    if not found:
        raise GuestError(f"the mirror has no linux-image-{series}.*-amd64")
    return f"{max(found, key=numbers)}-amd64"


def packages(kver: str, depends: Callable[[str], str]) -> list[str]:
    """The image and every package of the same KVER that it depends on.

    Since 7.1 Debian splits the image in binary, modules and base. The rest
    (kmod, an initramfs builder) is for installing a kernel, which nobody does.
    """
    wanted = [f"linux-image-{kver}"]
    for package in wanted:
        parts = re.findall(rf"linux-[a-z]+-{re.escape(kver)}", depends(package))
        wanted += [part for part in dict.fromkeys(parts) if part not in wanted]
    return wanted
