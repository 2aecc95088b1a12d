"""What a real llama.cpp server saves is read as what it is, and what it takes is told beforehand."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from zcopy.cli.inspect_server import server_of
from zcopy.engines.llama.server import unavailable
from zcopy.seqstate.against import objections
from zcopy.seqstate.sections import KvSection, RecurrentSection
from zcopy.seqstate.state import StateFile, inspect

pytestmark = pytest.mark.llama

HERE = Path(__file__).parent
SETUP: dict[str, Any] = {"ctx": 512, "slots": 1, "types": ("f16", "f16"), "flash": True}
Save = Callable[..., Path]


def _package(name: str) -> Any:
    """The folder of that name beside this file: modules of tests cannot be imported by name."""
    spec = importlib.util.spec_from_file_location(f"seqstate_{name}", HERE / name / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A model of that kind, made once."""
    if lack := unavailable():
        pytest.skip(lack)
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    module, folder, made = _package("models"), tmp_path_factory.mktemp("models"), dict[str, Path]()

    def get(kind: str) -> Path:
        if kind not in made:
            made[kind] = module.MODELS[kind](folder / f"{kind}.gguf")
        return made[kind]

    return get


def run(job: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(HERE / "llama_server.py"), json.dumps({**SETUP, **job})]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)


@pytest.fixture(scope="module")
def save(model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Save:
    """The file that a server of this kind of model saves after so many tokens, saved once."""
    folder = tmp_path_factory.mktemp("saved")

    def get(kind: str, tokens: int = 10, **setup: Any) -> Path:
        path = folder / f"{kind}-{tokens}-{json.dumps(setup, sort_keys=True).replace('/', '')}.bin"
        if not path.exists():
            done = run({"model": str(model(kind)), "tokens": tokens, "save": str(path), **setup})
            assert done.returncode == 0, done.stderr[-2000:]
        return path

    return get


def whole(path: Path) -> StateFile:
    state = inspect(path)
    assert (state.verdict, state.size, state.version) == ("whole", state.expected, 4)
    return state


def attention(state: StateFile) -> list[KvSection]:
    return [section for section in state.sections if isinstance(section, KvSection)]


@pytest.mark.parametrize("tokens", [0, 10, 307])
@pytest.mark.parametrize(
    ("types", "rows", "rotation"),
    [
        (("f16", "f16"), (256, 256), (0, 0)),
        (("f32", "bf16"), (512, 256), (0, 0)),
        (("q8_0", "q4_0"), (136, 72), (64, 64)),
        (("q5_1", "iq4_nl"), (96, 72), (64, 64)),
    ],
)
def test_full_attention(
    tokens: int, types: tuple[str, str], rows: tuple[int, int], rotation: tuple[int, int], save: Save
) -> None:
    state = whole(save("full", tokens, types=types))
    assert (state.roles, state.tokens, state.media, state.cells) == (("attention",), tokens, 0, tokens)
    assert state.size == 36 if not tokens else state.read_bytes < 1000 + 13 * tokens
    (section,) = attention(state)
    assert (section.layers, section.rotation) == ((2, rotation) if tokens else (0, None))
    assert [(each.type_name, each.row_bytes) for each in section.k + section.v] == (
        [(types[0], rows[0])] * 2 + [(types[1], rows[1])] * 2 if tokens else []
    )
    (cells,) = section.streams
    assert (cells.last, cells.gaps, cells.duplicates) == (tokens - 1 if tokens else None, 0, 0)


def test_v_transposed(save: Save) -> None:
    assert attention(whole(save("full", flash=False)))[0].v_trans is True


def test_a_slot_with_a_stream_of_its_own(save: Save) -> None:
    (section,) = attention(whole(save("full", slots=3, ctx=1536)))
    assert [cells.count for cells in section.streams] == [0, 0, 10]
    assert section.streams[2].sequences == (2,)


@pytest.mark.parametrize("tokens", [0, 10, 70])
@pytest.mark.parametrize(("kind", "layers"), [("window", [1, 5]), ("unequal", [2, 2]), ("shared", [1, 2])])
def test_a_sliding_window(kind: str, layers: list[int], tokens: int, save: Save) -> None:
    state = whole(save(kind, tokens))
    assert (state.roles, state.tokens) == (("attention", "window"), tokens)
    assert [section.layers for section in attention(state)] == (layers if tokens else [0, 0])
    assert [section.cells for section in attention(state)] == [tokens, min(tokens, 64)]
    assert len(state.checkpoints) == (1 if tokens else 0)


def test_rows_of_k_and_v_differ(save: Save) -> None:
    for section in attention(whole(save("unequal"))):
        assert {each.row_bytes for each in section.k} == {128}
        assert {each.row_bytes for each in section.v} == {64}


@pytest.mark.parametrize("kind", ["mrope", "mrope_hybrid", "indexed_hybrid"])
def test_positions_of_mrope(kind: str, save: Save) -> None:
    assert all(section.mrope for section in attention(whole(save(kind))))


@pytest.mark.parametrize(
    ("kind", "roles"), [("latent", ("attention",)), ("indexed", ("attention", "indexer"))]
)
def test_latent_attention_keeps_no_v(kind: str, roles: tuple[str, ...], save: Save) -> None:
    state = whole(save(kind))
    assert state.roles == roles
    assert [(section.layers, section.v) for section in attention(state)] == [(2, ())] * len(roles)
    assert state.also[-1].startswith("if its model keeps V: truncated by ")


@pytest.mark.parametrize("tokens", [0, 10, 70])
@pytest.mark.parametrize(
    ("kind", "roles", "sizes"),
    [
        ("hybrid", ("attention", "recurrent"), [1536, 1536, 8192, 8192]),
        ("mrope_hybrid", ("attention", "recurrent"), [1536, 1536, 4096, 4096]),
        ("short_convolution", ("attention", "recurrent"), [512, 512, 0, 0]),
        ("recurrent", ("recurrent",), [1536] * 3 + [8192] * 3),
        ("indexed_hybrid", ("attention", "recurrent", "indexer"), [1536, 1536, 4096, 4096]),
    ],
)
def test_recurrent_states(
    kind: str, roles: tuple[str, ...], sizes: list[int], tokens: int, save: Save
) -> None:
    state = whole(save(kind, tokens))
    assert (state.roles, state.tokens) == (roles, tokens)
    (states,) = (section for section in state.sections if isinstance(section, RecurrentSection))
    assert [each.row_bytes for each in states.states] == sizes
    assert (states.cells, states.last) == ((1, tokens - 1) if tokens else (0, None))
    assert states.layers == (3 if kind == "recurrent" else 4)
    assert states.history == (2048 if kind == "indexed_hybrid" else None)
    assert [section.cells for section in attention(state)] == [tokens] * (len(roles) - 1)
    assert len(state.checkpoints) == (1 if tokens else 0)


@pytest.mark.parametrize("kind", ["full", "window", "hybrid", "latent", "indexed_hybrid"])
def test_cut_anywhere_it_is_not_taken_for_what_it_was(kind: str, save: Save, tmp_path: Path) -> None:
    """Only what ends where another kind of file would is whole, as a file of that kind."""
    uncut = whole(save(kind))
    cut = tmp_path / "cut.bin"
    cut.write_bytes(save(kind).read_bytes())
    for size in range(uncut.size - 1, 0, -37):
        with cut.open("r+b") as file:
            file.truncate(size)
        state = inspect(cut)
        if state.whole:
            assert (state.roles, state.checkpoints) != (uncut.roles, uncut.checkpoints) or state.also
        else:
            assert state.verdict.startswith("truncated by ")


def answers(model: Path, files: Sequence[Path], **setup: Any) -> list[bool]:
    """What a server says to each file; one that it does not survive it has not taken."""
    found: list[bool] = []
    while len(found) < len(files):
        left = files[len(found) :]
        done = run({"model": str(model), "restore": [str(path) for path in left], **setup})
        said = [line == "TAKEN" for line in done.stdout.splitlines() if line in ("TAKEN", "REFUSED")]
        assert said or done.returncode < 0, done.stderr[-2000:]  # it came up, and a file ended it
        found += said
        if len(found) < len(files):
            found.append(False)
    return found


KINDS = ("full", "window", "hybrid", "mrope", "unequal", "shared", "latent", "indexed", "short_convolution",
         "recurrent", "mrope_hybrid", "indexed_hybrid")  # fmt: skip


@pytest.fixture(scope="module")
def files(save: Save, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of every kind of model, and of one in every setting; cut, longer, and of more tokens than there are cells."""
    found = [save(kind) for kind in KINDS]
    found += [save("full", 0), save("full", 300), save("window", 300), save("recurrent", 300)]
    found += [
        save("full", types=("q8_0", "q8_0")),
        save("full", types=("f16", "f32")),
        save("full", flash=False),
        save("full", slots=2, ctx=1024),
    ]
    folder = tmp_path_factory.mktemp("broken")
    for name, data in (
        ("long", save("full").read_bytes() + b"\xee"),
        ("short", save("full").read_bytes()[:-1]),
        ("checkpoints-cut", save("hybrid").read_bytes()[:-1]),
        ("none", b"none"),
    ):
        (folder / name).write_bytes(data)
        found.append(folder / name)
    return found


@pytest.mark.parametrize(
    ("kind", "setup"),
    [
        *((kind, {}) for kind in KINDS),
        ("full", {"types": ("q8_0", "q8_0")}),
        ("full", {"types": ("f16", "f32")}),
        ("full", {"flash": False}),
        ("full", {"slots": 2, "ctx": 1024}),
        ("full", {"ctx": 200}),
        ("window", {"ctx": 200}),
        ("recurrent", {"ctx": 200}),
    ],
)
def test_what_a_server_takes_is_told_beforehand(
    kind: str, setup: dict[str, Any], model: Callable[[str], Path], files: list[Path]
) -> None:
    """Its answers are those of `--against`, for every file of every kind."""
    path, used = model(kind), {**SETUP, **setup}
    server = server_of(
        str(path),
        path.parent,
        tuple(used["types"]),
        not used["flash"],
        used["slots"],
        used["ctx"] // used["slots"],
    )
    told = {file.name: objections(inspect(file), server) for file in files}
    said = dict(zip(told, answers(path, files, **setup), strict=True))
    assert {name: not why for name, why in told.items()} == said
    assert any(said.values())
