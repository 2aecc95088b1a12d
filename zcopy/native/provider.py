"""`Provider`: a provider process, from its start to its end, and the requests a decoder makes of it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from zcopy.errors import MeasurementError, SkippedError
from zcopy.native import wire
from zcopy.native._zc import ffi, lib
from zcopy.native.calls import check, refused
from zcopy.native.cells import Adoption, CellTable
from zcopy.native.channel import Channel, refusal_text
from zcopy.native.listener import Listener
from zcopy.native.process import Process
from zcopy.native.region import Export, Region
from zcopy.native.rows import Layout

SOCKET_VARIABLE: Final = "ZCOPY_HANDOFF_FD"  # tells a provider which descriptor its socket is
_WHO: Final = "the provider"
_MOST_FAULTS: Final = 1 << 48  # more pages than an address space has
_NO_TIMES: Final = "tells times that cannot be on this box's CLOCK_MONOTONIC"


@dataclass(frozen=True, slots=True)
class Done:
    """The provider's account of a request. Times in ns (CLOCK_MONOTONIC for begin, end and sent)."""

    op: int
    reports: int  # by AddressSanitizer
    begin_ns: int
    end_ns: int
    preread_ns: int
    preread_faults: int
    faults: int  # minor faults while writing
    bytes: int
    sent_ns: int

    @property
    def ns(self) -> int:
        """The span of the work itself."""
        return max(0, self.end_ns - self.begin_ns)


@dataclass(frozen=True, slots=True)
class Handoff:
    """What happened from the provider's "done" on, in ns; `copied` in bytes."""

    done: Done
    wake_ns: int
    copy_ns: int
    adopt_ns: int
    ready_ns: int
    copied: int


@dataclass(frozen=True, slots=True)
class Request:
    """A BEGIN: what to do with a slot's rows."""

    op: wire.Op
    nonce: int
    slot: wire.Slot = wire.Slot.REGION
    inject: wire.Inject = wire.Inject.NONE
    flags: wire.BeginFlag = wire.PLAIN
    sequence: int = 0
    types: tuple[int, int] = (0, 0)  # ggml type numbers of K and V
    rotation: tuple[int, int] = (0, 0)
    path: str = ""

    def body(self) -> bytes:
        packed = wire.BEGIN.pack(
            self.op,
            self.slot,
            self.inject,
            self.flags,
            self.nonce,
            0,
            self.sequence,
            *self.types,
            *self.rotation,
        )
        return packed + (os.fsencode(self.path) + b"\0" if self.path else b"")


def serve(place: Path, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Plays the provider for a decoder that listens at `place`, by `command`; its exit code once the decoder is done.

    Raises RefusedError where nobody listens there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        try:
            check(lib.zc_socket_credentials(end.fileno()))  # first: who sends before this stays unknown
            end.connect(os.fsencode(place))
        except OSError as error:
            raise refused(
                f"--connect {place}", error, "a decoder must listen there (docs/protocol.md)"
            ) from error
        process = Process(_WHO, command, {**environ, SOCKET_VARIABLE: str(end.fileno())}, (end.fileno(),))
    try:
        return process.wait()
    finally:
        process.end(kill=True)


def helper(name: str) -> Path:
    """An executable that is installed with the package. Raises SkippedError where this build has none."""
    # Not relative to this file: an editable install leaves the helpers in its build folder.
    path = files("zcopy").joinpath("helpers", name)
    if not isinstance(path, Path) or not path.exists():
        raise SkippedError(f"this build has no {name}", "it is built where the compiler has AddressSanitizer")
    return path


class Provider:
    """A provider at the other end of a socket, and its process where it is ours; waits end after `deadline_ns`."""

    def __init__(
        self, fd: int, process: Process | None, *, deadline_ns: int, ticks: Callable[[], int]
    ) -> None:
        """Takes a connected SEQPACKET socket and a process over, and greets. Raises PeerError."""
        self._process = process
        epitaph = process.epitaph if process else lambda: ""
        self.channel = Channel(fd, _WHO, deadline_ns, ticks, epitaph)
        self._asked_ns = 0
        try:
            self.hello = self.channel.hello()
        except BaseException:
            self.close(kill=True)
            raise

    @classmethod
    def started(
        cls,
        command: Sequence[str],
        *,
        deadline_ns: int,
        ticks: Callable[[], int],
        environ: Mapping[str, str],
        inherit: Sequence[int] = (),
    ) -> Provider:
        """Starts `command` with its socket in $ZCOPY_HANDOFF_FD; `inherit` are descriptors under the same numbers."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            check(lib.zc_socket_credentials(end.fileno()))
        environ = {**environ, SOCKET_VARIABLE: str(theirs.fileno())}
        try:
            process = Process(_WHO, command, environ, (theirs.fileno(), *inherit))
        except MeasurementError:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(ours.detach(), process, deadline_ns=deadline_ns, ticks=ticks)

    @classmethod
    def met(cls, listener: Listener, *, deadline_ns: int, ticks: Callable[[], int]) -> Provider:
        """The next provider that comes to `listener`; its process is somebody else's."""
        fd = listener.accept(deadline_ns, ticks)
        check(lib.zc_socket_credentials(fd))
        return cls(fd, None, deadline_ns=deadline_ns, ticks=ticks)

    @property
    def pid(self) -> int:
        """The process that speaks the protocol, which a wrapper around it has started."""
        return self.channel.peer_pid

    def tensors(self, slot: wire.Slot, layout: Layout, types: tuple[int, int]) -> None:
        """Describes a slot, and which cells its requests write."""
        tensors = layout.tensor_bytes
        head = wire.TENSORS.pack(slot, len(layout.tensors), layout.n_cells, *types, 0, layout.region_bytes)
        self.channel.send(wire.Type.TENSORS, head + tensors)
        total = len(layout.runs)
        for at in range(0, total, wire.RUNS_MOST):
            part = layout.runs[at : at + wire.RUNS_MOST]
            body = wire.RUNS.pack(slot, at, len(part), total)
            flat = b"".join(
                first.to_bytes(4, "little") + count.to_bytes(4, "little") for first, count in part
            )
            self.channel.send(wire.Type.RUNS, body + flat)

    def map(self, slot: wire.Slot, export: Export, *, inherited: bool = False) -> tuple[int, wire.Mapped]:
        """Hands a region over and waits until it is mapped; when it was sent (ns), and the provider's answer."""
        flags = wire.RegionFlag.SYNC if export.dmabuf else wire.RegionFlag.SEALED
        sent = int(lib.zc_sys_now())
        body = wire.REGION.pack(
            slot, int(inherited), export.fd if inherited else -1, flags, export.size, sent
        )
        request = self.channel.send(wire.Type.REGION, body, -1 if inherited else export.fd)
        mapped = wire.Mapped.parse(self.channel.answer(request, wire.Type.MAPPED, wire.MAPPED.size))
        if not sent <= mapped.received_ns <= mapped.received_ns + mapped.map_ns <= lib.zc_sys_now():
            raise self.channel.fail(errno.EBADMSG, _NO_TIMES)
        return sent, mapped

    def drop(self, slot: wire.Slot) -> None:
        """Has a slot unmapped, and waits until it is."""
        request = self.channel.send(wire.Type.DROP, wire.SLOT.pack(slot, 0))
        self.channel.answer(request, wire.Type.DROPPED, wire.SLOT.size)

    def pipe(self, fd: int) -> None:
        """Hands over the descriptor that STREAM writes to."""
        self.channel.send(wire.Type.PIPE, b"", fd)

    def begin(self, request: Request) -> int:
        """Starts a request; its number."""
        self._asked_ns = int(lib.zc_sys_now())
        return self.channel.send(wire.Type.BEGIN, request.body())

    def take_over(
        self,
        request: int,
        table: CellTable,
        adoption: Adoption | None,
        rows: tuple[Region, Layout, Region, Layout] | None = None,
    ) -> Handoff:
        """Waits for the request's "done", copies `rows` (to, its layout, source, its layout) where given, adopts.

        Raises PeerError for the provider's faults and NativeError where adopting is refused.
        """
        how = ffi.new("zc_takeover *")
        how.table, how.adoption = table.raw, adoption.raw if adoption else ffi.NULL
        if rows is not None:
            to, target, source, packed = rows
            how.to, how.target, how.source = to.pointer, target.raw, packed.raw
            setattr(how, "from", source.pointer)
        out = ffi.new("zc_handoff *")
        adopting: list[int] = []

        def call(ms: int) -> int:
            status = int(lib.zc_take_over(self.channel.fd, request, ms, how, out))
            if status < 0 and out.woke_ns:  # the answer was there: what failed is ours, not the peer's
                adopting.append(status)
                return 0
            return status

        self.channel.wait(call, lambda: refusal_text(ffi.string(out.refusal)))
        self.channel.check_sender(out)
        self._check_times(out.done, int(out.woke_ns))
        if adopting:
            check(adopting[0])
        return _handoff(out)

    def _check_times(self, done: Any, woke_ns: int) -> None:
        """What cannot be on one CLOCK_MONOTONIC is no measurement. Raises PeerError."""
        in_order = self._asked_ns <= done.begin_ns <= done.end_ns <= done.sent_ns <= woke_ns
        if not in_order or done.preread_ns > woke_ns - self._asked_ns:
            raise self.channel.fail(errno.EBADMSG, _NO_TIMES)
        if max(done.faults, done.preread_faults) > _MOST_FAULTS:
            raise self.channel.fail(errno.EBADMSG, "counts page faults that cannot be")

    def finish(self, request: int) -> Done:
        """Waits for the request's "done" and nothing else."""
        return self.take_over(request, CellTable(1), None).done

    def close(self, *, kill: bool = False) -> None:
        """Ends the process and reaps it. Idempotent.

        It is told to go and has a moment to; with `kill`, or when it has broken the protocol, it has not.
        """
        broken = self.channel.broken
        kill = kill or (broken is not None and broken.code != errno.EREMOTEIO)
        if not kill and self.channel.fd >= 0:
            with contextlib.suppress(MeasurementError):
                self.channel.send(wire.Type.BYE)
        self.channel.close()
        if self._process is not None:
            self._process.end(kill=kill)

    def __enter__(self) -> Provider:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(kill=kind is not None)


def _handoff(out: Any) -> Handoff:
    done = out.done
    account = Done(
        done.op, done.reports, done.begin_ns, done.end_ns, done.preread_ns, done.preread_faults, done.faults,
        done.bytes, done.sent_ns,
    )  # fmt: skip
    wake = max(0, out.woke_ns - done.sent_ns)
    return Handoff(account, wake, out.copy_ns, out.adopt_ns, out.ready_ns, out.copied)
