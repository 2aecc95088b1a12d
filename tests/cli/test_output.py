from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HEADER = "id\tcells\ttotal_ns\tcopied_bytes\toutcome\tlabel\n"
ROW = "20261130-210000-abc\t16399\t122345\t\tok\t\n"

needs_other_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


def test_tsv_is_whole_whatever_columns_says(sample: Any) -> None:
    done = sample("sample", "--label", "[/x] [no copy]", COLUMNS="20")
    assert done.stdout == HEADER + ROW.replace("ok\t", "ok\t[/x] [no copy]")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("out.json", "{"), ("out.csv", "id,cells,"), ("out.tsv", "id\tcells"), ("out.md", "**sample**"),
        ("out.txt", "sample\n"), ("out", "id\tcells"), ("OUT.JSON", "{"),
    ],
)  # fmt: skip
def test_output_takes_its_format_from_the_suffix(sample: Any, tmp_path: Path, name: str, begins: str) -> None:
    done = sample("sample", "-o", name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / name).read_text().startswith(begins)
    assert leftovers(tmp_path) == []


def test_format_wins_over_the_suffix(sample: Any, tmp_path: Path) -> None:
    sample("sample", "-o", "out.json", "--format", "csv")
    assert (tmp_path / "out.json").read_text().startswith("id,cells")


def test_json_is_the_run(sample: Any) -> None:
    document = json.loads(sample("sample", "--json").stdout)
    assert document["schema"] == "zcopy.run/1"
    assert document["rows"][0]["case"] == {"cells": 307}


def test_a_dash_is_stdout(sample: Any) -> None:
    assert sample("sample", "-o", "-").stdout == HEADER + ROW


def test_a_new_file_gets_the_umask_and_an_old_one_keeps_its_mode(sample: Any, tmp_path: Path) -> None:
    old = tmp_path / "old.tsv"
    old.write_text("old")
    old.chmod(0o640)
    done = sample.shell("umask 027; Z sample -o new.tsv && Z sample -o old.tsv")
    assert done.returncode == 0
    assert stat.S_IMODE((tmp_path / "new.tsv").stat().st_mode) == 0o640
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert old.read_text() == HEADER + ROW


def test_a_link_stays_a_link(sample: Any, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.tsv").symlink_to("there/real.tsv")
    assert sample("sample", "-o", "link.tsv").returncode == 0
    assert (tmp_path / "link.tsv").is_symlink()
    assert (tmp_path / "there/real.tsv").read_text() == HEADER + ROW


@pytest.mark.parametrize(
    ("name", "says"),
    [("none/out.json", "No such file or directory"), (".", "it is a folder"), ("/dev/fd/77", "Bad file")],
)
def test_a_wrong_place_is_known_before_anything_is_measured(
    sample: Any, tmp_path: Path, name: str, says: str
) -> None:
    done = sample("sample", "-o", name, "--started", "started")
    assert done.returncode == 74
    assert done.stderr.startswith(f"zcopy: error: cannot write {name}: ")
    assert says in done.stderr
    assert not (tmp_path / "started").exists()


@needs_other_user
def test_a_read_only_file_and_folder_are_refused(sample: Any, tmp_path: Path) -> None:
    (tmp_path / "old.tsv").write_text("old")
    (tmp_path / "old.tsv").chmod(0o444)
    (tmp_path / "folder").mkdir(0o555)
    for name in ("old.tsv", "folder/new.tsv"):
        done = sample("sample", "-o", name, "--started", "started")
        assert (done.returncode, (tmp_path / "started").exists()) == (74, False)
        assert "Permission denied" in done.stderr
    assert (tmp_path / "old.tsv").read_text() == "old"


def test_an_interrupted_run_leaves_a_good_file_alone(
    sample: Any, wait_for: Callable[[Path], None], tmp_path: Path
) -> None:
    assert sample("sample", "-o", "out.json").returncode == 0
    good = (tmp_path / "out.json").read_bytes()
    process = sample.start(
        "sample", "--sleep", "-o", "out.json", "--started", "started", stderr=subprocess.PIPE
    )
    wait_for(tmp_path / "started")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"out.json is left as it was" in err
    assert (tmp_path / "out.json").read_bytes() == good
    assert leftovers(tmp_path) == []


def test_a_failed_run_leaves_no_draft(sample: Any, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("good")
    assert sample("sample", "-o", "out.json", "--raises", "MeasurementError").returncode == 1
    assert (tmp_path / "out.json").read_text() == "good"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_own_descriptors_are_written_in_place(sample: Any, tmp_path: Path, name: str) -> None:
    done = sample.shell(f"{{ echo before; Z sample -o {name}; echo after; }} > all.txt")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "all.txt").read_text() == f"before\n{HEADER}{ROW}after\n"


def test_a_fifo_is_written_and_stays_one(sample: Any, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    assert sample("sample", "-o", "fifo").returncode == 0
    reader.join(20)
    assert read == [HEADER + ROW]
    assert fifo.is_fifo()


def test_a_full_device_is_74(sample: Any) -> None:
    done = sample("sample", "-o", "/dev/full")
    assert done.returncode == 74
    assert done.stderr.startswith("zcopy: error: cannot write /dev/full: No space left on device")


@pytest.mark.parametrize("words", ["sample", "sample --json", "--help", "--version", "config path"])
def test_full_stdout_is_74_and_one_line(sample: Any, words: str) -> None:
    done = sample.shell(f"Z {words} > /dev/full")
    assert done.returncode == 74
    assert done.stderr.startswith("zcopy: error: stdout cannot be written: No space left on device")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["sample --started started", "--help", "--version", "config path"])
def test_closed_stdout_is_74_and_one_line(sample: Any, tmp_path: Path, words: str) -> None:
    done = sample.shell(f"Z {words} >&-")
    assert done.returncode == 74
    assert done.stderr.startswith("zcopy: error: stdout ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "started").exists()


def test_closed_stdout_does_not_matter_with_a_file(sample: Any, tmp_path: Path) -> None:
    assert sample.shell("Z sample -o out.tsv <&- >&- 2>&-").returncode == 0
    assert (tmp_path / "out.tsv").read_text() == HEADER + ROW


def test_a_reader_that_leaves_is_silent(sample: Any) -> None:
    done = sample.shell("Z sample --rows 20000 | head -1; echo ${PIPESTATUS[0]}")
    assert done.stdout == HEADER + "74\n"
    assert done.stderr == ""


def test_closed_stderr_loses_warnings_only(sample: Any) -> None:
    done = sample.shell("Z sample --warn something 2>&-")
    assert (done.returncode, done.stdout) == (0, HEADER + ROW)


def test_file_names_that_are_no_text_come_out_as_they_are(sample: Any) -> None:
    done = sample("sample", "--label", "\udcff\udcfe")
    assert done.returncode == 0
    assert done.stdout == HEADER + ROW.replace("ok\t", "ok\t\udcff\udcfe")


def test_a_locale_that_lacks_a_letter_gets_an_escape(sample: Any) -> None:
    done = sample("sample", "--label", "größe", "--format", "table", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "gr\\xf6\\xdfe" in done.stdout
    assert done.stdout.isascii()


def test_a_block_device_is_refused(sample: Any, tmp_path: Path) -> None:
    try:
        # A major for local use that no driver has: should it be opened after all, nothing is behind it.
        os.mknod(tmp_path / "disk", stat.S_IFBLK | 0o600, os.makedev(240, 0))
    except PermissionError:
        pytest.skip("only root makes device nodes")
    done = sample("sample", "-o", "disk", "--started", "started")
    assert done.returncode == 74
    assert "it is a block device" in done.stderr
    assert not (tmp_path / "started").exists()
