"""The kernel's account: bytes through system calls, and who maps what."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from zcopy.errors import MeasurementError
from zcopy.native import fds
from zcopy.native.region import Region
from zcopy.probes.handoff.evidence import Io, Meter, SharedProof, writable
from zcopy.units import MIB

PAYLOAD = 16 * MIB  # well above what an interpreter's heap grows by

# Maps the descriptor it inherits and, on a word from stdin, does one thing and says so.
PROVIDER = """
import mmap, os, sys
fd = int(sys.argv[1])
region = mmap.mmap(fd, 0)
held, pipe = [], os.pipe()
def say(): print("ok", flush=True)
say()
for line in sys.stdin:
    word, _, number = line.partition(" ")
    size = int(number or 0)
    if word == "anonymous": held.append(mmap.mmap(-1, size)); held[-1][0] = 1
    if word == "object":
        other = os.memfd_create("other"); os.ftruncate(other, size); held.append(mmap.mmap(other, size))
    if word == "pieces":
        held += [mmap.mmap(-1, size // 64, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(64)]
    if word == "read-only": held.append(mmap.mmap(fd, 0, prot=mmap.PROT_READ))
    if word == "unmap": region.close()
    if word == "write": os.write(os.open("/dev/null", os.O_WRONLY), bytes(size))
    if word == "read": os.read(os.open("/dev/zero", os.O_RDONLY), size)
    say()
"""


class Peer:
    """A process that maps the region, and does as it is told."""

    def __init__(self, region: Region) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROVIDER, str(region.fd)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(region.fd,), text=True, bufsize=1,
        )  # fmt: skip
        self._heard()

    @property
    def pid(self) -> int:
        return self.process.pid

    def do(self, word: str, size: int = 0) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word} {size}\n")
        self._heard()

    def _heard(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ok\n"


@pytest.fixture
def region() -> Iterator[Region]:
    with Region(fds.memfd("zcopy-test", 8 * MIB), 8 * MIB) as one:
        yield one


@pytest.fixture
def peer(region: Region) -> Iterator[Peer]:
    one = Peer(region)
    with one.process:
        yield one
        assert one.process.stdin is not None
        one.process.stdin.close()


def proof_of(peer: Peer) -> SharedProof:
    return SharedProof(os.getpid(), peer.pid, PAYLOAD)


def test_both_map_one_object(region: Region, peer: Peer) -> None:
    assert proof_of(peer).fault(region.address, frozenset()) is None
    assert proof_of(peer).fault(region.address + region.size - 1, frozenset()) is None


def test_what_both_held_before_is_no_copy(region: Region, peer: Peer) -> None:
    peer.do("anonymous", PAYLOAD)
    with Region(-1, PAYLOAD):
        assert proof_of(peer).fault(region.address, frozenset()) is None


@pytest.mark.parametrize("word", ["anonymous", "object", "pieces"])
def test_another_mapping_of_payload_size_spoils_the_provider(word: str, region: Region, peer: Peer) -> None:
    proof = proof_of(peer)
    peer.do(word, PAYLOAD)
    fault = proof.fault(region.address, frozenset())
    assert fault is not None
    assert fault.startswith("the provider holds another ")


def test_less_than_the_payload_is_no_copy(region: Region, peer: Peer) -> None:
    proof = proof_of(peer)
    peer.do("object", PAYLOAD - 4096)
    assert proof.fault(region.address, frozenset()) is None


def test_another_mapping_spoils_the_decoder_unless_it_is_known(region: Region, peer: Peer) -> None:
    proof = proof_of(peer)
    with Region(fds.memfd("zcopy-other", PAYLOAD), PAYLOAD) as other:
        fault = proof.fault(region.address, frozenset())
        assert fault is not None
        assert fault.startswith("the decoder holds another ")
        assert proof.fault(region.address, frozenset([os.fstat(other.fd).st_ino])) is None


def test_a_provider_that_maps_something_else(region: Region, peer: Peer) -> None:
    proof = proof_of(peer)
    peer.do("unmap")
    assert proof.fault(region.address, frozenset()) == "the provider does not map the region's object"
    peer.do("read-only")
    assert proof.fault(region.address, frozenset()) == "the provider does not map the region's object"


def test_memory_that_is_no_object_is_not_shared(peer: Peer) -> None:
    proof = proof_of(peer)
    assert "no mapping" in str(proof.fault(0x1000, frozenset()))


def test_a_provider_that_is_gone_is_an_error(region: Region, peer: Peer) -> None:
    proof = proof_of(peer)
    peer.process.kill()
    peer.process.wait()
    with pytest.raises(MeasurementError, match=f"/proc/{peer.pid}/maps"):
        proof.fault(region.address, frozenset())


def test_writable_mappings_are_found_with_their_object(region: Region) -> None:
    (found,) = [each for each in writable(os.getpid()) if each.start == region.address]
    assert found.size == region.size
    assert found.identity[1] == os.fstat(region.fd).st_ino


BYTES = 3 * MIB + 17


def our_write(stack: ExitStack) -> None:
    fd = os.open("/dev/null", os.O_WRONLY)
    stack.callback(os.close, fd)
    assert os.write(fd, bytes(BYTES)) == BYTES


def our_read(stack: ExitStack) -> None:
    fd = os.open("/dev/zero", os.O_RDONLY)
    stack.callback(os.close, fd)
    assert len(os.read(fd, BYTES)) == BYTES


@pytest.mark.parametrize(
    ("act", "expected"),
    [(lambda _: None, (0, 0)), (our_write, (0, BYTES)), (our_read, (BYTES, 0))],
    ids=["nothing", "write", "read"],
)
def test_the_decoders_bytes_are_counted_exactly(
    act: Callable[[ExitStack], None], expected: tuple[int, int], peer: Peer
) -> None:
    meter = Meter(os.getpid(), peer.pid)
    with ExitStack() as stack:
        meter.start()
        act(stack)
        moved = meter.stop()
    if moved is None:
        pytest.skip("this kernel does not account for input and output")
    assert (moved.decoder_read, moved.decoder_written) == expected
    assert (moved.provider_read, moved.provider_written) == (0, 0)


@pytest.mark.parametrize("word", ["read", "write"])
def test_the_providers_bytes_are_counted(word: str, peer: Peer) -> None:
    """Give or take the few bytes of the conversation with it."""
    meter = Meter(os.getpid(), peer.pid)
    meter.start()
    peer.do(word, BYTES)
    moved = meter.stop()
    if moved is None:
        pytest.skip("this kernel does not account for input and output")
    found = {"read": moved.provider_read, "write": moved.provider_written}
    assert BYTES <= found.pop(word) <= BYTES + 100
    assert found.popitem()[1] <= 100
    assert moved.total >= BYTES


def test_what_cannot_be_read_is_not_guessed(peer: Peer) -> None:
    assert Io.of(2**22 + 1) is None
    meter = Meter(os.getpid(), 2**22 + 1)
    meter.start()
    assert meter.stop() is None
    meter = Meter(os.getpid(), peer.pid)
    assert meter.stop() is None
