"""The protocol as Python packs it is the one that wire.h declares: a compiler says so."""

from __future__ import annotations

import shutil
import struct
import subprocess
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

from zcopy.native import _zc, wire

HEADERS = Path(__file__).parents[2] / "native"
HEAD = wire.HEAD.size

# The head, and what follows it in each message.
STRUCTS = {
    "head": (wire.HEAD, "magic version type bytes request"),
    "hello": (wire.HELLO, "role pid flags reserved name"),
    "tensors": (wire.TENSORS, "slot n_tensors n_cells type_k type_v reserved region_bytes"),
    "region": (wire.REGION, "slot pass inherited_fd flags bytes sent_ns"),
    "mapped": (wire.MAPPED, "slot reserved received_ns map_ns dev ino"),
    "runs": (wire.RUNS, "slot offset count total"),
    "begin": (
        wire.BEGIN,
        "op slot inject flags nonce first_pos sequence type_k type_v n_rot_k n_rot_v",
    ),
    "slot": (wire.SLOT, "slot reserved"),
    "refuse": (wire.REFUSE, "code reserved text"),
}
ENUMS: dict[str, type[IntEnum | IntFlag]] = {
    "ZC_": wire.Type,
    "ZC_OP_": wire.Op,
    "ZC_BEGIN_": wire.BeginFlag,
    "ZC_REGION_": wire.RegionFlag,
}
INJECTS = {each.name: each for each in wire.Inject if each} | {"SOUND": wire.Inject.NONE}


def fields(body: struct.Struct) -> list[str]:
    """The formats of a packed body, one for each field: ``32s`` is one, ``II`` are two."""
    found, digits = [], ""
    for char in body.format.removeprefix("<"):
        if char.isdigit():
            digits += char
        else:
            found.append(digits + char)
            digits = ""
    return found


def expectations() -> dict[str, int]:
    """C expressions and what Python takes them for."""
    expected = {
        "ZC_WIRE_MAGIC": wire.MAGIC,
        "ZC_WIRE_VERSION": wire.VERSION,
        "ZC_WIRE_MOST": wire.MOST,
        "ZC_WIRE_RUNS": wire.RUNS_MOST,
        "ZC_SLOTS": len(wire.Slot),
        "ZC_PASS_SCM": 0,
        "ZC_PASS_INHERIT": 1,
        "ZC_DECODER": 1,
        "ZC_HELLO_ASAN": 1,
    }
    for message, (body, names) in STRUCTS.items():
        at = 0 if message == "head" else HEAD
        expected[f"sizeof(zc_wire_{message})"] = at + body.size
        for name, part in zip(names.split(), fields(body), strict=True):
            expected[f"offsetof(zc_wire_{message}, {name})"] = at
            at += struct.calcsize("<" + part)
    for prefix, members in ENUMS.items():
        expected |= {prefix + str(each.name): int(each) for each in members}
    return expected | {f"ZC_{name}": int(each) for name, each in INJECTS.items()}


def test_every_number_and_offset_is_the_c_structs(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or not (HEADERS / "wire.h").exists():
        pytest.skip("needs a C compiler and native/wire.h")
    expected = expectations()
    lines = "\n".join(f'    printf("%lld\\n", (long long)({expression}));' for expression in expected)
    program = tmp_path / "wire.c"
    program.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "wire.h"\nint main(void) {{\n{lines}\n}}\n'
    )
    subprocess.run([compiler, "-I", HEADERS, "-o", tmp_path / "wire", program], check=True)
    told = subprocess.run([tmp_path / "wire"], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(expected, map(int, told), strict=True)) == expected


def test_what_is_sent_as_it_lies_in_memory_has_no_padding() -> None:
    assert _zc.ffi.sizeof("zc_tensor") == 40
    assert _zc.ffi.sizeof("zc_run") == 8
    assert _zc.ffi.sizeof("zc_done") == 64


def test_a_message_is_its_head_and_its_body() -> None:
    whole = wire.message(wire.Type.BYE, 7, b"abc")
    assert wire.HEAD.unpack(whole[:HEAD]) == (wire.MAGIC, wire.VERSION, wire.Type.BYE, HEAD + 3, 7)
    assert whole[HEAD:] == b"abc"


def test_greetings_of_odd_peers_are_read() -> None:
    hello = wire.Hello.parse(wire.HELLO.pack(2, 99, 1, 0, b"caf\xc3\xa9 \xff\0junk"))
    assert (hello.role, hello.pid, hello.asan, hello.name) == (2, 99, True, "café �")
    assert wire.Hello.parse(wire.HELLO.pack(2, 99, 2, 0, b"x" * 32)).name == "x" * 32


def test_all_tensors_a_geometry_may_have_fit_into_one_message() -> None:
    from zcopy.probes.handoff.geometry import MOST_LAYERS

    assert HEAD + wire.TENSORS.size + 2 * MOST_LAYERS * 40 <= wire.MOST
    assert HEAD + wire.RUNS.size + wire.RUNS_MOST * 8 <= wire.MOST
