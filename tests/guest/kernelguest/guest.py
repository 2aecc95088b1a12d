"""One running guest: started, watched, and asked how it ended."""

import os
import re
import secrets
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from . import initrd, machine
from .errors import GuestError
from .kernels import Kernel
from .request import Request
from .streams import Pump, Sink, by_line, until


class Guest:
    """A guest lives as long as its QEMU; `close` is safe at any time."""

    def __init__(self, kernel: Kernel, request: Request, folder: Path) -> None:
        self.kernel = kernel
        self.request = request
        self.folder = folder
        self.log = (request.out or folder) / "kernel.log"
        self.events: dict[str, float] = {}
        self.result = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        self.unread: set[str] = set()

    def start(self, pump: Pump, sinks: Mapping[str, Sink]) -> None:
        # Random, so that no output of a command can contain it.
        mark = secrets.token_hex(16)
        archive = self.folder / "initrd"
        archive.write_bytes(initrd.build(self.kernel, self.request, mark))
        self.unread.update(sinks)
        pipes = {"status": pump.pipe(by_line(self.note))}
        for name, sink in sinks.items():
            ended = partial(self.unread.discard, name)
            pipes[name] = pump.pipe(until(f"\0{mark}\0".encode(), sink, ended))
        image = self.kernel.image
        argv = machine.command(self.request, image, archive, self.log, pipes)
        try:
            self.process = self.spawn(argv, tuple(pipes.values()))
        finally:
            # QEMU's copies stay open, so that its end is the end of the pipes.
            for fd in pipes.values():
                os.close(fd)
        self.started = time.monotonic()

    def spawn(self, argv: list[str], fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C reaches us, and we end QEMU in order.
        with (self.folder / "qemu.log").open("wb") as said:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=fds,
                start_new_session=True,
            )

    def note(self, line: bytes) -> None:
        """A line of stage2.sh: booted, ready, "exit CODE" or "failed WHY"."""
        word, _, rest = line.decode(errors="replace").strip().partition(" ")
        self.events[word] = self.age()
        if word in ("exit", "failed"):
            self.result = rest

    def age(self) -> float:
        return time.monotonic() - self.started

    def check(self) -> None:
        """Enforce the deadlines; a guest that has reported may end in peace."""
        age, request = self.age(), self.request
        if "ready" not in self.events and age > request.boot_deadline:
            raise GuestError(f"not ready after {request.boot_deadline:g} s")
        if age > request.timeout:
            raise GuestError(f"killed: still running after {request.timeout:g} s")

    @property
    def ended(self) -> bool:
        """It has failed, or all that its command wrote was read, or QEMU is gone."""
        if "failed" in self.events or ("exit" in self.events and not self.unread):
            return True
        return self.process is not None and self.process.poll() is not None

    def exit_code(self) -> int:
        """The command's own code, once the guest has ended."""
        if "failed" in self.events:
            raise GuestError(self.result)
        if "exit" in self.events:
            return int(self.result)
        raise GuestError(self.cause_of_death())

    def cause_of_death(self) -> str:
        log = self.kernel_log()
        panic = re.search(r"Kernel panic - not syncing.*|guest: .*", log)
        if panic:
            return panic[0].strip()
        said = (self.folder / "qemu.log").read_text(errors="replace").strip()
        code = self.process.returncode if self.process else None
        return f"QEMU ended ({code}): {said.splitlines()[-1] if said else 'silently'}"

    def kernel_log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def times(self) -> str:
        """For --verbose: seconds since power-on at which each step was reached."""
        steps = (f"{word} {age:.1f} s" for word, age in self.events.items())
        return f"{self.kernel.kver}: {', '.join(steps)}"

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
