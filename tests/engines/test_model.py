"""Model files: made once whatever happens meanwhile, and told apart by their headers."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.engines.llama.model import Shape, cache_kind, random_model
from zcopy.errors import MeasurementError, SkippedError

gguf = pytest.importorskip("gguf")

SMALL = Shape(1, 1, 32)


def test_a_model_is_made_once_and_always_the_same(tmp_path: Path) -> None:
    one, other = random_model(SMALL, tmp_path / "a"), random_model(SMALL, tmp_path / "b")
    assert one.read_bytes() == other.read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == [SMALL.name]
    one.write_bytes(b"kept")
    assert random_model(SMALL, tmp_path / "a").read_bytes() == b"kept"
    assert random_model(SMALL, tmp_path / "c", seed=2).read_bytes() != other.read_bytes()


def test_its_header_has_the_shape(tmp_path: Path) -> None:
    from zcopy.probes.handoff.model_file import read_geometry

    found = read_geometry(random_model(Shape(3, 2, 64), tmp_path))
    assert (found.rows, found.head_k, found.head_v) == (((128, 128),) * 3, 64, 64)


def test_several_at_once_make_one_whole_model(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from zcopy.engines.llama.model import *;"
        "random_model(Shape(1, 1, 32), Path(sys.argv[1]))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "m"], cwd=tmp_path) for _ in range(4)]
    assert [each.wait(60) for each in running] == [0] * 4
    assert [path.name for path in (tmp_path / "m").iterdir()] == [SMALL.name]
    assert (
        random_model(SMALL, tmp_path / "m").read_bytes() == random_model(SMALL, tmp_path / "n").read_bytes()
    )


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError):
            random_model(SMALL, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def header(tmp_path: Path) -> Callable[..., Path]:
    def write(arch: str, **keys: int) -> Path:
        writer = gguf.GGUFWriter(tmp_path / "m.gguf", arch)
        for name, value in keys.items():
            writer.add_uint32(f"{arch}.{name.replace('__', '.')}", value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return tmp_path / "m.gguf"

    return write


@pytest.mark.parametrize(
    ("arch", "keys", "kind"),
    [
        ("llama", {}, "full"),
        ("gemma3", {"attention__sliding_window": 512}, "window"),
        ("llama", {"attention__sliding_window": 0}, "full"),
        ("jamba", {"ssm__state_size": 16}, "recurrent"),
        ("falcon-h1", {"ssm__state_size": 16, "attention__sliding_window": 9}, "recurrent"),
        ("rwkv7", {"wkv__head_size": 64}, "recurrent"),
        ("lfm2", {"shortconv__l_cache": 3}, "recurrent"),
    ],
)
def test_the_header_says_what_kind_of_cache(
    arch: str, keys: dict[str, int], kind: str, header: Callable[..., Path]
) -> None:
    assert cache_kind(header(arch, **keys)) == kind


@pytest.mark.parametrize("data", [b"", b"GGUF", b"not a model", b"GGUF\x03\0\0\0" + b"\xff" * 64])
def test_what_is_no_model_is_one_line(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(MeasurementError, match="is no whole GGUF header") as caught:
        cache_kind(path)
    assert "\n" not in caught.value.message


def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"No such file or directory \(ENOENT\)"):
        cache_kind(tmp_path / "m.gguf")


def test_without_the_package_it_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(SkippedError, match="the package gguf is not installed"):
        cache_kind(tmp_path / "m.gguf")
