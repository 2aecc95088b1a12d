"""Which caches a model has, by headers made by hand. What a real server makes of such: tests/seqstate/test_real.py."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcopy.engines.llama.caches import Caches, read_caches
from zcopy.errors import MeasurementError, UsageError

Read = Callable[..., Caches]


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _value(value: Any) -> bytes:
    match value:
        case str():
            return struct.pack("<I", 8) + _text(value)
        case float():
            return struct.pack("<If", 6, value)
        case list():
            return struct.pack("<IIQ", 9, 5, len(value)) + b"".join(struct.pack("<i", each) for each in value)
    return struct.pack("<II", 4, value)


def write(path: Path, arch: str, **keys: Any) -> Path:
    """A header: double underscores in a key stand for dots."""
    pairs = {"general.architecture": arch}
    pairs |= {f"{arch}.{key.replace('__', '.')}": value for key, value in keys.items()}
    data = b"".join(_text(key) + _value(value) for key, value in pairs.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + data)
    return path


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """What is read of a model of three layers with two KV heads of 64."""

    def run(arch: str = "llama", **keys: Any) -> Caches:
        usual = {
            "block_count": 3, "embedding_length": 256, "attention__head_count": 4, "attention__head_count_kv": 2,
        }  # fmt: skip
        return read_caches(write(tmp_path / "m.gguf", arch, **{**usual, **keys}))

    return run


def test_a_plain_model(read: Read) -> None:
    assert read() == Caches("m.gguf", ((128, 128),) * 3, (64, 64))


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ({"attention__key_length": 32}, ((64, 128),) * 3),
        ({"attention__key_length": 32, "attention__value_length": 16}, ((64, 32),) * 3),
        ({"attention__head_count_kv": [2, 0, 1]}, ((128, 128), (64, 64))),
        ({"attention__shared_kv_layers": 2}, ((128, 128),)),
        ({"nextn_predict_layers": 1}, ((128, 128),) * 2),
        ({"attention__key_length_mla": 48, "attention__head_count_kv": 1}, ((64, 0),) * 3),
        (
            {"attention__key_length_swa": 32, "attention__sliding_window_pattern": [1, 0, 1]},
            ((64, 128), (128, 128), (64, 128)),
        ),
        ({"attention__key_length_swa": 32, "attention__sliding_window_pattern": 3},
         ((64, 128), (64, 128), (128, 128))),
        ({"ssm__state_size": 16, "full_attention_interval": 3}, ((128, 128),)),
        ({"ssm__state_size": 16}, ((128, 128),) * 3),  # each layer has both
        ({"full_attention_interval": 3}, ((128, 128),) * 3),  # there is nothing else that layers could have
        ({"attention__head_count_kv": 0, "ssm__state_size": 16}, ()),
    ],
)  # fmt: skip
def test_rows_of_the_layers_that_have_some(
    keys: dict[str, Any], rows: tuple[tuple[int, int], ...], read: Read
) -> None:
    assert read(**keys).rows == rows


@pytest.mark.parametrize(
    ("arch", "keys", "seen"),
    [
        ("llama", {"attention__sliding_window": 512}, {"window": True}),
        ("llama", {"attention__sliding_window": 0}, {"window": False}),
        ("phi3", {"attention__sliding_window": 512}, {"window": False}),
        ("llama", {"attention__indexer__key_length": 64}, {"indexer": True}),
        ("llama", {"rope__dimension_sections": [8, 4, 4, 0]}, {"mrope": True}),
        ("llama", {"rope__dimension_sections": [0, 0, 0, 0]}, {"mrope": False}),
        ("llama", {"attention__key_length_swa": 32}, {"heads": (0, 0)}),
        (
            "mamba",
            {"ssm__conv_kernel": 4, "ssm__inner_size": 128, "ssm__state_size": 16, "ssm__group_count": 2},
            {"recurrent": 3, "states": (3 * (128 + 2 * 2 * 16), 16 * 128)},
        ),
        ("lfm2", {"shortconv__l_cache": 3}, {"recurrent": 3, "states": (512, 0)}),
        ("rwkv7", {"wkv__head_size": 32}, {"recurrent": 3, "states": (512, 8192)}),
        ("kimi", {"ssm__conv_kernel": 4}, {"recurrent": 3, "states": None}),
        ("qwen3next", {"ssm__conv_kernel": 4, "block_count": 8}, {"rows": ((128, 128),) * 2}),
    ],
)
def test_what_else_it_has(arch: str, keys: dict[str, Any], seen: dict[str, Any], read: Read) -> None:
    found = read(arch, **keys)
    assert {name: getattr(found, name) for name in seen} == seen


@pytest.mark.parametrize(
    "keys",
    [
        {"block_count": 0},
        {"block_count": 1 << 20},
        {"block_count": 2.0},
        {"block_count": "many"},
        {"nextn_predict_layers": 3},
        {"attention__head_count_kv": [2, 2]},
        {"attention__head_count_kv": [2, -1, 2]},
        {"attention__key_length": 1 << 30},
    ],
)
def test_numbers_that_no_model_has_are_told(keys: dict[str, Any], read: Read) -> None:
    with pytest.raises(MeasurementError, match="is the header of no model"):
        read(**keys)


def test_what_is_no_file_is_wrong_usage(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, Path("/dev/null")):
        with pytest.raises(UsageError, match="no such preset or file"):
            read_caches(path)


WORD = st.sampled_from((0, 1, 2, 3, 64, 4096, 1 << 31, 0xFFFFFFFF)) | st.integers(0, 0xFFFFFFFF)
KEYS = ("block_count", "embedding_length", "nextn_predict_layers", "attention.head_count", "attention.head_count_kv",
        "attention.key_length", "attention.value_length_swa", "attention.shared_kv_layers", "ssm.state_size",
        "attention.sliding_window_pattern", "full_attention_interval", "shortconv.l_cache")  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(KEYS), WORD | st.lists(st.integers(-4, 4), max_size=5) | st.floats(width=32)
    )
)
def test_any_numbers_are_a_model_or_told(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "m.gguf"
    write(path, "llama", **{key.replace(".", "__"): value for key, value in keys.items()})
    try:
        assert len(read_caches(path).rows) <= 4096
    except MeasurementError as error:
        assert "\n" not in error.message
