"""Geometries from real GGUF headers, and from hostile ones."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from zcopy.errors import MeasurementError, UsageError
from zcopy.probes.handoff.geometry import Geometry
from zcopy.probes.handoff.model_file import read_geometry
from zcopy.units import MIB

gguf = pytest.importorskip("gguf")

Value = int | str | Sequence[int]
PLAIN: dict[str, Value] = {
    "block_count": 3,
    "embedding_length": 64,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
    "attention.key_length": 128,
    "attention.value_length": 96,
}


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """A GGUF file with these fields below its architecture's name; None leaves one out."""

    def write(arch: str = "llama", **changes: Value | None) -> Path:
        path = tmp_path / "model.gguf"
        writer = gguf.GGUFWriter(path, arch)
        fields = {**PLAIN, **{name.replace("__", "."): value for name, value in changes.items()}}
        for name, value in fields.items():
            if isinstance(value, str):
                writer.add_string(f"{arch}.{name}", value)
            elif isinstance(value, int):
                writer.add_uint32(f"{arch}.{name}", value)
            elif value is not None:
                writer.add_array(f"{arch}.{name}", value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def test_a_header_gives_the_geometry(model: Callable[..., Path]) -> None:
    assert read_geometry(model()) == Geometry("model.gguf", ((256, 192),) * 3, 128, 96)


def test_another_architectures_fields_are_its_own(model: Callable[..., Path]) -> None:
    assert read_geometry(model("qwen3")).rows == ((256, 192),) * 3


def test_layers_without_attention_have_no_rows(model: Callable[..., Path]) -> None:
    found = read_geometry(model("jamba", attention__head_count_kv=[0, 4, 0]))
    assert found.rows == ((512, 384),)


def test_every_layer_may_have_its_own_heads(model: Callable[..., Path]) -> None:
    assert read_geometry(model(attention__head_count_kv=[1, 2, 3])).rows == (
        (128, 96),
        (256, 192),
        (384, 288),
    )


def test_without_kv_heads_every_head_has_its_own(model: Callable[..., Path]) -> None:
    assert read_geometry(model(attention__head_count_kv=None)).rows == ((1024, 768),) * 3


def test_without_lengths_the_heads_share_the_embedding(model: Callable[..., Path]) -> None:
    path = model(attention__key_length=None, attention__value_length=None)
    assert read_geometry(path) == Geometry("model.gguf", ((16, 16),) * 3, 8, 8)


@pytest.mark.parametrize(
    ("lengths", "heads"),
    [
        ({"attention__key_length": None}, (8, 96)),
        ({"attention__value_length": None}, (128, 8)),
        ({"attention__value_length": None, "attention__head_count": [8, 4, 2]}, (128, 8)),
    ],
)
def test_each_length_has_the_default_for_itself(
    lengths: dict[str, Value | None], heads: tuple[int, int], model: Callable[..., Path]
) -> None:
    found = read_geometry(model(**lengths))
    assert (found.head_k, found.head_v) == heads
    assert found.rows == ((2 * heads[0], 2 * heads[1]),) * 3


@pytest.mark.parametrize(
    "changes",
    [
        {"block_count": 0},
        {"block_count": 801},
        {"block_count": None},
        {"block_count": "three"},
        {"attention__head_count_kv": [2, 2]},
        {"attention__head_count_kv": [0, 0, 0]},
        {"attention__head_count_kv": 4097},
        {"attention__key_length": 65537},
        {"attention__key_length": 2**32 - 1},
        {"attention__value_length": 2**32 - 1},
        {"attention__key_length": None, "embedding_length": None, "attention__value_length": None},
        {"attention__value_length": None, "attention__head_count": None},
        {"attention__value_length": None, "attention__head_count": [0, 8, 8]},
    ],
)
def test_an_absurd_header_is_refused(changes: dict[str, Value | None], model: Callable[..., Path]) -> None:
    with pytest.raises(MeasurementError) as caught:
        read_geometry(model(**changes))
    assert "model.gguf" in caught.value.message
    assert "\n" not in caught.value.message


def test_an_absurd_count_costs_no_memory(model: Callable[..., Path]) -> None:
    path = model(block_count=10_000_000)
    tracemalloc.start()
    with pytest.raises(MeasurementError, match="10000000 layers"):
        read_geometry(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * MIB


def test_a_truncated_file_is_refused(model: Callable[..., Path]) -> None:
    whole = model().read_bytes()
    for length in (0, 3, 4, 8, 20, 24, 31, 40, len(whole) // 2):
        path = model()
        path.write_bytes(whole[:length])
        with pytest.raises(MeasurementError, match="no whole GGUF header"):
            read_geometry(path)


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 9, 2**60),
        struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 0, 2**60),
        b"GGML" + bytes(64),
        b"\x7fELF" + bytes(64),
        struct.pack("<4sIQQ", b"GGUF", 99, 0, 0) + bytes(64),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 2**63) + bytes(64),
        struct.pack("<4sIQQ", b"GGUF", 3, 2**40, 0) + bytes(64),
        struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 2**60) + bytes(64),
        struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 4)
        + b"\xff\xfe\xfd\xfc"
        + struct.pack("<I", 200)
        + bytes(64),
    ],
)
def test_a_hostile_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    with pytest.raises(MeasurementError, match=r"no whole GGUF header|header of no model"):
        read_geometry(path)


@pytest.mark.parametrize("name", ["no-such-preset", "."])
def test_what_is_no_file_is_a_wrong_word(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such preset or file"):
        read_geometry(tmp_path / name)
