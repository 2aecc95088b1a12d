from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from zcopy import config
from zcopy.errors import OutputError, UsageError
from zcopy.render import Format

HOME = Path("/home/someone")


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_a_missing_file_is_an_empty_configuration(tmp_path: Path) -> None:
    assert config.load(tmp_path / "none.toml", HOME) == config.Config()


def test_every_key_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        lock_dir = "/run/lock/site"
        more = 1
        [locks]
        gpu0 = "~/gpu.lock"
        npu0 = "/run/npu"
        [aliases]
        igpu = "gpu0"
        [history]
        db = "/var/lib/zcopy.db"
        [output]
        format = "md"
        pipe_format = "json"
        [other]
        deep.key = true
        """,
    )
    assert config.load(path, HOME) == config.Config(
        lock_dir=Path("/run/lock/site"),
        locks={"gpu0": HOME / "gpu.lock", "npu0": Path("/run/npu")},
        aliases={"igpu": "gpu0"},
        db=Path("/var/lib/zcopy.db"),
        format="md",
        pipe_format="json",
        unknown=("more", "other.deep.key"),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lock_dir = 1", "lock_dir must be a string, not 1"),
        ("lock_dir = 'relative'", "lock_dir must be an absolute path"),
        ("[locks]\ngpu0 = ['/a']", "locks.gpu0 must be a string"),
        ("[output]\nformat = 'xml'", "output.format must be one of table, tsv, csv, json, md, not 'xml'"),
        ("a = 1\nb = = 2", "line 2"),
        ("a = 1\na = 2\n", "line 2"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        config.load(path, HOME)
    assert says in caught.value.message
    assert str(path) in caught.value.message


def test_bytes_that_are_no_text_and_folders_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"a = '\xff'")
    for wrong in (path, tmp_path):
        with pytest.raises(UsageError):
            config.load(wrong, HOME)


def test_set_keeps_every_other_key(tmp_path: Path) -> None:
    path = write(tmp_path, '[locks]\ngpu0 = "/a"\n[other]\nkey = [1, 2]\n')
    assert config.set_value(path, "locks.npu0", "/b", HOME) is None
    assert config.set_value(path, "lock_dir", "/c", HOME) is None
    assert tomllib.loads(path.read_text()) == {
        "lock_dir": "/c", "locks": {"gpu0": "/a", "npu0": "/b"}, "other": {"key": [1, 2]},
    }  # fmt: skip


def test_set_makes_the_folder_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "config.toml"
    config.set_value(path, "output.format", "json", HOME)
    path.chmod(0o600)
    config.set_value(path, "output.pipe_format", "csv", HOME)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in path.parent.iterdir()] == ["config.toml"]


def test_set_writes_through_a_link(tmp_path: Path) -> None:
    real = write(tmp_path, "")
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    config.set_value(link, "lock_dir", "/a", HOME)
    assert link.is_symlink()
    assert real.read_text() == 'lock_dir = "/a"\n'


def test_an_empty_value_removes_the_key(tmp_path: Path) -> None:
    path = write(tmp_path, 'lock_dir = "/a"\n[locks]\ngpu0 = "/b"\n')
    config.set_value(path, "lock_dir", "", HOME)
    config.set_value(path, "locks.gpu0", "", HOME)
    config.set_value(path, "locks.gpu1", "", HOME)
    assert tomllib.loads(path.read_text()) == {"locks": {}}


def test_comments_are_kept_in_a_backup(tmp_path: Path) -> None:
    text = '# why\nlock_dir = "/a"\n'
    path = write(tmp_path, text)
    assert config.set_value(path, "lock_dir", "/b", HOME) == tmp_path / "config.toml.bak"
    assert (tmp_path / "config.toml.bak").read_text() == text


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("colour", "red", "no configuration key 'colour'"),
        ("locks", "/a", "no configuration key 'locks'"),
        ("locks.", "/a", "no configuration key 'locks.'"),
        ("output.format", "xml", "must be one of"),
        ("history.db", "here.db", "must be an absolute path"),
    ],
)
def test_set_refuses_and_leaves_the_file(tmp_path: Path, key: str, value: str, says: str) -> None:
    path = write(tmp_path, "# mine\n")
    with pytest.raises(UsageError, match=says):
        config.set_value(path, key, value, HOME)
    assert path.read_text() == "# mine\n"


def test_set_refuses_a_file_that_does_not_parse(tmp_path: Path) -> None:
    path = write(tmp_path, "a = 1\nb = = 2")
    with pytest.raises(UsageError, match="line 2"):
        config.set_value(path, "lock_dir", "/a", HOME)
    assert path.read_text() == "a = 1\nb = = 2"


def test_set_refuses_a_section_that_is_a_value(tmp_path: Path) -> None:
    path = write(tmp_path, "locks = 1\n")
    with pytest.raises(UsageError, match="'locks' in the configuration is not a section"):
        config.set_value(path, "locks.gpu0", "/a", HOME)


def test_set_where_nothing_can_be_written() -> None:
    # Not even root makes a folder there.
    with pytest.raises(OutputError, match="cannot write the configuration"):
        config.set_value(Path("/proc/none/config.toml"), "lock_dir", "/a", HOME)


def test_the_formats_are_the_renderers() -> None:
    assert tuple(Format) == config.FORMATS
