from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from zcopy.config import KEYS


def test_path_is_the_platforms_or_zcopy_config(zcopy: Any, tmp_path: Path) -> None:
    assert zcopy("config", "path").stdout == f"{tmp_path}/home/.config/zcopy/config.toml\n"
    assert zcopy("config", "path", XDG_CONFIG_HOME="/xdg").stdout == "/xdg/zcopy/config.toml\n"
    assert zcopy("config", "path", ZCOPY_CONFIG="/etc/z.toml").stdout == "/etc/z.toml\n"
    assert zcopy("config", "path", ZCOPY_CONFIG="z.toml").stdout == f"{tmp_path}/z.toml\n"


def test_show_lists_every_key_without_a_file(zcopy: Any) -> None:
    header, *lines = zcopy("config", "show").stdout.splitlines()
    assert header == "key\tvalue\ttakes\tmeaning"
    assert [line.split("\t")[0] for line in lines] == [key.name for key in KEYS]


def test_set_then_show(zcopy: Any, tmp_path: Path) -> None:
    done = zcopy("config", "set", "locks.gpu0", "/run/lock/gpu-hold")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    written = tmp_path / "home/.config/zcopy/config.toml"
    assert tomllib.loads(written.read_text()) == {"locks": {"gpu0": "/run/lock/gpu-hold"}}
    document = json.loads(zcopy("config", "show", "--json").stdout)
    assert (document["schema"], document["path"]) == ("zcopy.config/1", str(written))
    assert document["keys"][0] == {
        "key": "locks.gpu0", "value": "/run/lock/gpu-hold", "takes": "path",
        "meaning": "a site's own lock file for the device NAME",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "lock_dir = '/a'\n[locks]\ngpu0 = '/b'\n", "[mine]\nkey = 7\n"])
def test_its_document_fits_its_schema(text: str, zcopy: Any, tmp_path: Path) -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/zcopy.config.schema.json").read_text())
    (tmp_path / "z.toml").write_text(text)
    done = zcopy("config", "show", "--json", ZCOPY_CONFIG="z.toml")
    jsonschema.Draft202012Validator(schema).validate(json.loads(done.stdout))


def test_set_says_where_comments_went(zcopy: Any, tmp_path: Path) -> None:
    (tmp_path / "z.toml").write_text("# mine\n")
    done = zcopy("config", "set", "lock_dir", "/a", ZCOPY_CONFIG="z.toml")
    assert done.returncode == 0
    assert done.stderr.startswith("zcopy: warning: ")
    assert f"{tmp_path}/z.toml.bak" in done.stderr


@pytest.mark.parametrize(
    "words", [("show",), ("show", "--json"), ("set", "lock_dir", "/a")], ids=lambda words: words[-1]
)
def test_a_file_that_does_not_parse_is_named_with_its_line(zcopy: Any, tmp_path: Path, words: Any) -> None:
    (tmp_path / "z.toml").write_text("a = 1\nb = = 2\n")
    done = zcopy("config", *words, ZCOPY_CONFIG="z.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"zcopy: error: {tmp_path}/z.toml is not valid TOML: ")
    assert "line 2" in done.stderr
    assert (tmp_path / "z.toml").read_text() == "a = 1\nb = = 2\n"


def test_an_unknown_key_is_refused_by_set_and_warned_of_by_show(zcopy: Any, tmp_path: Path) -> None:
    assert zcopy("config", "set", "colour", "red").returncode == 2
    (tmp_path / "z.toml").write_text("colour = 'red'\n")
    done = zcopy("config", "show", ZCOPY_CONFIG="z.toml")
    assert done.returncode == 0
    assert done.stderr == f"zcopy: warning: {tmp_path}/z.toml: unknown key colour, ignored\n"
    assert "colour\tred\t\tnot a key of zcopy\n" in done.stdout


def test_the_configured_formats_are_the_defaults(sample: Any, tmp_path: Path) -> None:
    (tmp_path / "z.toml").write_text("[output]\nformat = 'csv'\npipe_format = 'json'\n")
    assert json.loads(sample("sample", ZCOPY_CONFIG="z.toml").stdout)["schema"] == "zcopy.run/1"
    assert sample.on_terminal("sample", ZCOPY_CONFIG="z.toml").startswith("id,cells,")
    assert sample("sample", "--format", "tsv", ZCOPY_CONFIG="z.toml").stdout.startswith("id\t")


def test_help_does_not_read_the_configuration(zcopy: Any, tmp_path: Path) -> None:
    (tmp_path / "z.toml").write_text("b = = 2\n")
    assert zcopy("--help", ZCOPY_CONFIG="z.toml").returncode == 0
    assert zcopy("config", "path", ZCOPY_CONFIG="z.toml").returncode == 0
