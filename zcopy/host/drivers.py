"""Kernel drivers and what identifies the build of one that runs.

srcversion hashes a module's source and many kernels leave it out; the GNU build-id names the binary itself
and is readable by everyone. A built-in driver has no notes of its own: the kernel's build-id stands for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zcopy.host.elf import note_build_id
from zcopy.host.files import LARGE, Root
from zcopy.model import Json

BUILT_IN: Final = "built-in"
_NAME: Final = re.compile(r"\w[\w-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Driver:
    """The fingerprint of a driver in the running kernel.

    `state` is live, coming, going or built-in. `taint` is the module's own flags (O out of tree, E unsigned),
    empty for a signed module of the kernel's own tree, None where the kernel does not say.
    """

    name: str
    state: str
    version: str | None
    srcversion: str | None
    build_id: str | None
    taint: str | None

    @property
    def built_in(self) -> bool:
        return self.state == BUILT_IN

    def document(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "state": self.state,
            "version": self.version,
            "srcversion": self.srcversion,
            "build_id": self.build_id,
            "taint": self.taint,
        }

    def key(self) -> dict[str, Json]:
        """What must be equal for two runs over this driver to be comparable."""
        return {"version": self.version, "srcversion": self.srcversion, "build_id": self.build_id}


def read_driver(root: Root, name: str) -> Driver | None:
    """The fingerprint of the module `name` (``-`` and ``_`` are one); None when it is not in this kernel."""
    module = module_name(name)
    if module is None:
        return None
    folder = f"sys/module/{module}"
    state = root.line(f"{folder}/initstate")
    if state is None:
        return _built_in(root, module)
    notes = root.raw(f"{folder}/notes/.note.gnu.build-id")
    return Driver(
        name=module,
        state=state,
        version=root.line(f"{folder}/version"),
        srcversion=root.line(f"{folder}/srcversion"),
        build_id=note_build_id(notes or b""),
        taint=_taint(root, folder),
    )


def parameter(root: Root, module: str, name: str) -> str | None:
    """A parameter of a loaded or built-in module, such as ("udmabuf", "size_limit_mb")."""
    folder, file = module_name(module), module_name(name)
    return root.line(f"sys/module/{folder}/parameters/{file}") if folder and file else None


def module_name(name: str) -> str | None:
    """The name as sysfs writes it; None for what can be neither a module's name nor a file's."""
    return name.replace("-", "_") if _NAME.fullmatch(name) else None


def _taint(root: Root, folder: str) -> str | None:
    text = root.raw(f"{folder}/taint")
    return None if text is None else text.decode("ascii", "replace").strip()


def _built_in(root: Root, module: str) -> Driver | None:
    """A built-in driver has a folder only if it has parameters; otherwise the kernel's list names it."""
    if not root.exists(f"sys/module/{module}") and not _listed(root, module):
        return None
    return Driver(
        name=module,
        state=BUILT_IN,
        version=root.line(f"sys/module/{module}/version"),
        srcversion=None,
        build_id=note_build_id(root.raw("sys/kernel/notes", LARGE) or b""),
        taint=None,
    )


def _listed(root: Root, module: str) -> bool:
    release = root.line("proc/sys/kernel/osrelease")
    lines = root.lines(f"lib/modules/{release}/modules.builtin")
    stems = (line.rpartition("/")[2].removesuffix(".ko").replace("-", "_") for line in lines)
    return module in stems
