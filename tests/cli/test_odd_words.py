"""Words and places that are wrong in ways a user meets: empty variables, quotes, a deleted folder, a FIFO."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def zcopy(tmp_path: Path, *words: str, cwd: Path | None = None, **more: str) -> tuple[int, str]:
    """The exit code and stderr of a command that must end at once."""
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), **more}
    environ["ZCOPY_LOCK_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "zcopy", *words],
        env=environ, cwd=cwd or tmp_path, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--route", ""), "--route"),
        (("--buffer", ""), "--buffer"),
        (("--cells", "64,,64"), "--cells"),
        (("--cells", "64", "--cells", ""), "--cells"),
        (("--state-dir", ""), "--state-dir"),
        (("--provider-cmd", ""), "--provider-cmd is empty"),
        (("--provider-cmd", " "), "--provider-cmd is empty"),
        (("--provider-cmd", '"'), "--provider-cmd"),
        (("-o", ""), "--output is empty"),
        (("--model", "tinny"), "no such preset or file"),
    ],
)
def test_an_empty_or_broken_word_is_wrong_usage(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    code, err = zcopy(tmp_path, "handoff", "--model", "tiny", "--cells", "8", "--plan", *words)
    assert (code, err.count("\n")) == (2, 1), err
    assert said in err
    assert "unexpected" not in err


def test_a_deleted_working_folder_is_no_fault(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir {gone}; exec "{sys.executable}" -P -m zcopy "$@"'
    for words in (("doctor", "--json"), ("history", "list"), ("handoff", "--plan", "--model", "tiny")):
        environ = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
        done = subprocess.run(
            ["sh", "-c", script, "sh", *words],
            env=environ, cwd=_made(gone), capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), words


def test_a_fifo_as_configuration_is_refused_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "config.toml"
    os.mkfifo(fifo)
    code, err = zcopy(tmp_path, "config", "show", ZCOPY_CONFIG=str(fifo))
    assert code == 2
    assert "it is no file" in err


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
