"""A provider of the handoff protocol, version 1, in plain Python: whole rows into a region (routes shared and copy).

zcopy handoff --provider-cmd "python3 provider_example.py" --model tiny --cells 64 --route shared,copy
"""

import fcntl
import mmap
import os
import socket
import struct
import time

HEAD, MAGIC, VERSION = struct.Struct("<IHHII"), 0x3150435A, 1
HELLO, TENSORS, REGION, MAPPED, RUNS, BEGIN, DONE, DROP, DROPPED, PIPE, REFUSE, BYE = range(1, 13)
SCM_CREDENTIALS = 2
WORD, STEP = (1 << 64) - 1, 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def row(nonce: int, layer: int, role: int, token: int, size: int) -> bytes:
    """The bytes that the decoder will look for."""
    base = mix(mix(nonce + STEP & WORD) ^ (layer << 33 | role << 32 | token))
    words = [base + i * STEP & WORD for i in range(1, size // 8 + 2)]
    return struct.pack(f"<{len(words)}Q", *words)[:size]


def need(sound: bool, otherwise: str) -> None:
    if not sound:
        raise ValueError(otherwise)


class Provider:
    def __init__(self) -> None:
        self.socket = socket.socket(fileno=int(os.environ["ZCOPY_HANDOFF_FD"]))
        self.slots: dict[int, dict] = {}

    def send(self, kind: int, request: int, body: bytes) -> None:
        self.socket.send(HEAD.pack(MAGIC, VERSION, kind, HEAD.size + len(body), request) + body)

    @property
    def handlers(self) -> dict:
        first = {HELLO: self.hello, TENSORS: self.tensors, REGION: self.region, RUNS: self.runs}
        return first | {BEGIN: self.begin, DROP: self.drop}

    def serve(self) -> None:
        """Until the decoder says bye or is gone."""
        while True:
            data, control, flags, _ = self.socket.recvmsg(65536, 256)
            rights = [memoryview(raw).cast("i") for _, kind, raw in control if kind == socket.SCM_RIGHTS]
            fds = [fd for each in rights for fd in each]
            users = [struct.unpack("iII", raw)[1] for _, kind, raw in control if kind == SCM_CREDENTIALS]
            magic, version, kind, size, request = HEAD.unpack_from(data) if len(data) >= 16 else (0,) * 5
            if not data or kind == BYE:
                return
            try:
                need((magic, version, size) == (MAGIC, VERSION, len(data)), "a message of another protocol")
                need(not flags & socket.MSG_CTRUNC and len(fds) <= 1, "descriptors were dropped, or too many")
                need(all(uid == os.getuid() for uid in users), "the decoder is another user")
                need(kind in self.handlers, f"this provider does not do messages of type {kind}")
                self.handlers[kind](request, data[HEAD.size :], *fds)
            except Exception as fault:
                self.send(REFUSE, request, struct.pack("<iI239sx", -22, 0, str(fault).encode()))

    def hello(self, request: int, body: bytes) -> None:
        self.send(HELLO, request, struct.pack("<IIII32s", 2, os.getpid(), 0, 0, b"example"))

    def tensors(self, request: int, body: bytes) -> None:
        slot, count, _cells, _k, _v, _, size = struct.unpack_from("<IIIIIIQ", body)
        self.slots[slot] = {"tensors": list(struct.iter_unpack("<QQQIIII", body[32:])), "size": size}
        need(count == len(self.slots[slot]["tensors"]), "tensors are missing")

    def region(self, request: int, body: bytes, fd: int = -1) -> None:
        came = time.monotonic_ns()
        slot, way, inherited, flags, size, _sent = struct.unpack("<IIiIQQ", body)
        fd = os.dup(inherited) if way == 1 else fd
        if flags & 1:  # announced as sealed: neither F_SEAL_SHRINK nor F_SEAL_GROW may be missing
            need(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & 6 == 6, "the region is not sealed")
        need(os.fstat(fd).st_size >= size >= self.slots[slot]["size"], "the region is too small")
        self.slots[slot]["map"] = mmap.mmap(fd, size)
        place = os.fstat(fd)
        os.close(fd)
        took = time.monotonic_ns() - came
        self.send(MAPPED, request, struct.pack("<IIQQQQ", slot, 0, came, took, place.st_dev, place.st_ino))

    def runs(self, request: int, body: bytes) -> None:
        slot, offset, _count, _total = struct.unpack_from("<IIII", body)
        known = self.slots[slot]["runs"] if offset else []
        self.slots[slot]["runs"] = known + list(struct.iter_unpack("<II", body[16:]))

    def begin(self, request: int, body: bytes) -> None:
        op, number, inject, _flags, nonce = struct.unpack_from("<IIIIQ", body)
        need(op == 1 and not inject, "this provider only writes, and only what is right")
        began, written, slot = time.monotonic_ns(), 0, self.slots[number]
        for offset, stride, scattered, size, _element, layer, role in slot["tensors"]:
            need(not scattered, "this provider writes whole rows")
            cells = (cell for first, count in slot["runs"] for cell in range(first, first + count))
            for token, cell in enumerate(cells):
                at = offset + cell * stride
                slot["map"][at : at + size] = row(nonce, layer, role, token, size)
                written += size
        self.done(request, op, began, time.monotonic_ns(), written)

    def done(self, request: int, op: int, began: int, ended: int, written: int) -> None:
        sent = time.monotonic_ns()
        self.send(DONE, request, struct.pack("<IIQQQQQQQ", op, 0, began, ended, 0, 0, 0, written, sent))

    def drop(self, request: int, body: bytes) -> None:
        slot, _ = struct.unpack("<II", body)
        self.slots[slot].pop("map").close()
        self.send(DROPPED, request, struct.pack("<II", slot, 0))


if __name__ == "__main__":
    Provider().serve()
