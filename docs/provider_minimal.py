"""The smallest provider of the handoff protocol, version 1: whole rows into one region, over a socket or a path.

zcopy handoff --listen /tmp/kv.sock --route shared --region reused &  python3 provider_minimal.py /tmp/kv.sock
"""

import mmap
import os
import socket
import struct
import sys
import time

HEAD, MAGIC, WORD, STEP = struct.Struct("<IHHII"), 0x3150435A, (1 << 64) - 1, 0x9E3779B97F4A7C15
HELLO, TENSORS, REGION, MAPPED, RUNS, BEGIN, DONE, DROP, DROPPED, PIPE, REFUSE, BYE = range(1, 13)


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def row(nonce, layer, role, token, size):
    """What stands here for a K or V row that was computed: the bytes that the decoder will look for."""
    base = mix(mix(nonce + STEP & WORD) ^ (layer << 33 | role << 32 | token))
    return b"".join((base + i * STEP & WORD).to_bytes(8, "little") for i in range(1, size // 8 + 2))[:size]


def answer(state, kind, body, fd):
    """The answer's type and body, or None."""
    now = time.monotonic_ns()
    if kind == HELLO:
        return HELLO, struct.pack("<IIII32s", 2, os.getpid(), 0, 0, b"minimal")
    if kind == TENSORS:
        state.update(tensors=list(struct.iter_unpack("<QQQIIII", body[32:])), runs=[])
    elif kind == RUNS:
        state["runs"] += struct.iter_unpack("<II", body[16:])
    elif kind == REGION:
        slot, _pass, _fd, _flags, size, _sent = struct.unpack("<IIiIQQ", body)
        state["map"], place = mmap.mmap(fd, size), os.fstat(fd)
        took = time.monotonic_ns() - now
        return MAPPED, struct.pack("<IIQQQQ", slot, 0, now, took, place.st_dev, place.st_ino)
    elif kind == BEGIN and body[:12] == struct.pack("<III", 1, 0, 0):  # WRITE, slot 0, no fault on purpose
        nonce, written = struct.unpack_from("<Q", body, 16)[0], 0
        cells = [cell for first, count in state["runs"] for cell in range(first, first + count)]
        for offset, stride, _channels, size, _element, layer, role in state["tensors"]:
            for token, cell in enumerate(cells):
                at = offset + cell * stride
                state["map"][at : at + size] = row(nonce, layer, role, token, size)
                written += size
        return DONE, struct.pack("<IIQQQQQQQ", 1, 0, now, (end := time.monotonic_ns()), 0, 0, 0, written, end)
    elif kind in (BEGIN, DROP, PIPE):
        return REFUSE, struct.pack("<iI240s", -22, 0, b"this provider only writes whole rows into one region")
    return None


inherited = None if sys.argv[1:] else int(os.environ["ZCOPY_HANDOFF_FD"])
peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=inherited)
peer.setsockopt(
    socket.SOL_SOCKET, 16, 0
)  # SO_PASSCRED off: recv_fds has no room for credentials beside a descriptor
if inherited is None:
    peer.connect(sys.argv[1])
known = {}
while True:
    data, fds, _flags, _ = socket.recv_fds(peer, 65536, 1)
    magic, version, kind, size, request = HEAD.unpack_from(data) if data else (0, 0, BYE, 0, 0)
    if kind == BYE or (magic, version, size) != (MAGIC, 1, len(data)):
        break
    if reply := answer(known, kind, data[HEAD.size :], *fds or [-1]):
        peer.send(HEAD.pack(MAGIC, 1, reply[0], HEAD.size + len(reply[1]), request) + reply[1])
