"""Model files: made once whatever happens meanwhile, and told apart by their headers."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.engines.llama.model import Shape, cache_kind, random_model
from zcopy.errors import SkippedError

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")

SMALL = Shape(1, 1, 32)


def test_a_model_is_made_once_and_always_the_same(tmp_path: Path) -> None:
    one, other = random_model(SMALL, tmp_path / "a"), random_model(SMALL, tmp_path / "b")
    assert one.read_bytes() == other.read_bytes()
    assert list((tmp_path / "a").iterdir()) == [one]
    one.write_bytes(b"kept")
    assert random_model(SMALL, tmp_path / "a").read_bytes() == b"kept"


def test_another_seed_is_another_model_beside_it(tmp_path: Path) -> None:
    one, other = random_model(SMALL, tmp_path), random_model(SMALL, tmp_path, seed=2)
    assert one != other
    assert one.read_bytes() != other.read_bytes()


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
    one, other = (random_model(SMALL, tmp_path / name) for name in "mn")
    assert list((tmp_path / "m").iterdir()) == [one]
    assert one.read_bytes() == other.read_bytes()


def test_a_kill_in_the_middle_leaves_no_half_model(tmp_path: Path) -> None:
    """It kills itself with the file half written; whoever makes the model next clears that away."""
    code = (
        "import os, signal, sys; from pathlib import Path; import gguf; from zcopy.engines.llama.model import *;"
        "gguf.GGUFWriter.write_tensors_to_file = lambda _: os.kill(os.getpid(), signal.SIGKILL);"
        "random_model(Shape(1, 1, 32), Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    (half,) = tmp_path.iterdir()
    assert half.name.startswith(f".{SMALL.name}")
    living = half.with_suffix(f".{os.getppid()}")
    living.write_bytes(b"in the making")
    one = random_model(SMALL, tmp_path)
    assert set(tmp_path.iterdir()) == {one, living}
    assert cache_kind(one) == "full"


def test_a_folder_that_cannot_be_written_is_an_error_of_the_systems(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/zcopy")):
        with pytest.raises(OSError):
            random_model(SMALL, folder)


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


def test_without_the_package_no_model_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(SkippedError, match="the package gguf is not installed"):
        random_model(SMALL, tmp_path)
    assert list(tmp_path.iterdir()) == []
