"""Debian's package lists, asked through an apt that shares nothing with the host's.

Only the address of the mirror comes from the host's configuration. Sources,
lists and archives live in a folder of ours, so nothing of the host changes and
its release does not matter.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from . import tools
from .errors import GuestError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = ("trixie", "trixie-updates", "trixie-backports")
SECURITY_SUITE = "trixie-security"


@dataclass(frozen=True)
class Mirror:
    """Where Debian is; the security archive is left out where apt has none."""

    main: str
    security: str | None = None

    def sources(self) -> str:
        places = [(self.main, suite) for suite in SUITES]
        if self.security:
            places.append((self.security, SECURITY_SUITE))
        options = f"[arch=amd64 signed-by={KEYRING}]"
        return "".join(f"deb {options} {site} {suite} main\n" for site, suite in places)


def configured_site(label: str) -> str | None:
    """The first archive with this label among those that apt already uses."""
    wanted = ("Created-By: Packages", "Origin: Debian", f"Label: {label}")
    found = tools.text("apt-get", "indextargets", "--format", "$(SITE)", *wanted)
    return next(iter(found.split()), None)


def find_mirror() -> Mirror:
    """ZCOPY_GUEST_MIRROR ("MAIN [SECURITY]"), else what apt is configured with."""
    given = os.environ.get("ZCOPY_GUEST_MIRROR", "").split()
    if given:
        return Mirror(*given[:2])
    main = configured_site("Debian")
    if main is None:
        raise GuestError("apt knows no Debian mirror: run apt-get update, or set ZCOPY_GUEST_MIRROR")
    return Mirror(main, configured_site("Debian-Security"))


class Apt:
    """apt with its own sources, lists and archives below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()

    def options(self) -> list[str]:
        settings = {
            "APT::Architecture": "amd64",
            # All files here are ours: root need not become _apt to write them.
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::Cache": self.folder,
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": self.folder,
            "Dir::State::status": self.folder / "status",
        }
        return [f"-o{name}={value}" for name, value in settings.items()]

    def update(self, mirror: Mirror) -> None:
        if not KEYRING.exists():
            raise GuestError(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
        (self.folder / "sources.list").write_text(mirror.sources())
        # Else a mirror that cannot be reached is a warning and an empty list.
        strict = "-oAPT::Update::Error-Mode=any"
        tools.run("apt-get", *self.options(), strict, "update")

    def names(self, prefix: str) -> list[str]:
        return tools.text("apt-cache", *self.options(), "pkgnames", prefix).split()

    def depends(self, package: str) -> str:
        """The Depends line of the newest version, as it stands."""
        show = ("show", "--no-all-versions", package)
        record = tools.text("apt-cache", *self.options(), *show)
        found = re.search(r"^Depends: (.*)$", record, re.MULTILINE)
        return found[1] if found else ""

    def download(self, packages: list[str], into: Path) -> list[Path]:
        """Verified .deb files of these packages, their newest versions."""
        into.mkdir(parents=True, exist_ok=True)
        tools.run("apt-get", *self.options(), "download", *packages, cwd=into)
        return sorted(into.glob("*.deb"))
