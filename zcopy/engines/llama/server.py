"""A llama.cpp server of our own: a process on loopback, with a region of ours for its KV buffer where asked."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from zcopy.engines.llama.http import Client
from zcopy.errors import MeasurementError, SkippedError
from zcopy.model import Json
from zcopy.native.calls import failed
from zcopy.native.process import Process
from zcopy.native.provider import helper

_MOST_ANSWER: Final = 65536
_MOST_LOG: Final = 256 * 1024  # bytes that are looked through for a reason
_ERROR_LINE: Final = re.compile(r"^[\d.]+ E (?P<text>.+)$")


def unavailable() -> str | None:
    """Why no server can be started here, with what helps; None where one can."""
    if find_spec("xllamacpp") is None:
        return "the package xllamacpp is not installed (pip install 'zcopy[llama]')"
    return None


def installed() -> str:
    """The wheel and its version, which is that of the llama.cpp inside."""
    return f"xllamacpp {version('xllamacpp')}"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a server is started with. `kv` are a descriptor and its bytes, for the KV buffer to lie in."""

    model: Path
    ctx: int
    folder: Path  # where it saves and restores slots
    types: tuple[str, str] = ("f16", "f16")  # ggml's names of K and V
    flash: bool = True  # without it V is stored transposed
    threads: int = 2
    kv: tuple[int, int] | None = None

    def document(self) -> Mapping[str, Json]:
        return {
            "model": str(self.model), "ctx": self.ctx, "folder": f"{self.folder}/", "types": list(self.types),
            "flash": self.flash, "threads": self.threads,
        }  # fmt: skip


class Server:
    """Owns the process until `close`. Raises SkippedError without the wheel, MeasurementError if it does not start."""

    def __init__(
        self,
        who: str,
        setup: Setup,
        *,
        deadline_ns: int,
        ticks: Callable[[], int],
        environ: Mapping[str, str],
    ) -> None:
        if lack := unavailable():
            raise SkippedError(lack)
        self._who = who
        # A pipe would make the server wait for us. It writes about 1 KB for each completion: no bound is needed.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - ours until `close`
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line = ours
        try:
            with theirs:
                self._process = self._start(setup, environ, theirs)
        except BaseException:
            ours.close()
            self._log.close()
            raise
        try:
            url = self._greeting(setup, deadline_ns)
            self.client = Client(who, url, deadline_ns, ticks, self._process.epitaph)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def maps(self, inode: int) -> bool:
        """Whether the process has the object of that inode mapped: its KV buffer lies in it, or it does not."""
        fields = (line.split() for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines())
        return any(each[4] == str(inode) for each in fields)

    def _start(self, setup: Setup, environ: Mapping[str, str], line: socket.socket) -> Process:
        script = str(Path(__file__).with_name("serve.py"))
        environ = {**environ, **_preload(setup, environ)}
        fds = [line.fileno(), *(setup.kv[:1] if setup.kv else ())]
        command = (sys.executable, "-P", script, str(line.fileno()))
        return Process(self._who, command, environ, fds, stderr=self._log.fileno())

    def _greeting(self, setup: Setup, deadline_ns: int) -> str:
        """Hands the setup over and waits for the address."""
        self._line.settimeout(deadline_ns / 1e9)
        try:
            self._line.send(json.dumps(setup.document()).encode())
            answer = self._line.recv(_MOST_ANSWER)
        except TimeoutError:
            raise MeasurementError(f"{self._who} was not ready in time{self._reason()}") from None
        except OSError as error:
            raise failed(f"talking to {self._who}", error) from error
        if not answer:
            raise MeasurementError(f"{self._who} did not start{self._process.epitaph()}{self._reason()}")
        found = json.loads(answer)
        if "error" in found:
            self._process.end(kill=False)  # what it has to say is in its log once it has ended
            raise MeasurementError(f"{self._who} did not start: {found['error']}{self._reason()}")
        return str(found["url"])

    def _reason(self) -> str:
        """The first error in its log, as part of a sentence: those after it follow from it."""
        log = os.pread(self._log.fileno(), _MOST_LOG, 0)  # the offset is where the server writes on
        lines = log.decode("utf-8", "replace").splitlines()
        errors = [found["text"] for line in lines if (found := _ERROR_LINE.match(line))]
        return f" ({errors[0]})" if errors else ""

    def close(self) -> None:
        """Ends the process, which goes when its line is closed or is killed, and reaps it. Idempotent."""
        self._line.close()
        self._process.end(kill=True)
        self._log.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _preload(setup: Setup, environ: Mapping[str, str]) -> dict[str, str]:
    """What makes the engine's KV buffer ours (native/kv_preload.c)."""
    if setup.kv is None:
        return {}
    fd, size = setup.kv
    before = environ.get("LD_PRELOAD", "")
    library = str(helper("zcopy-kv.so"))
    return {
        "LD_PRELOAD": f"{library} {before}".strip(),
        "ZCOPY_KV_FD": str(fd),
        "ZCOPY_KV_BYTES": str(size),
    }
