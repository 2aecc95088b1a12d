from __future__ import annotations

import io
import re
from pathlib import Path
from types import MappingProxyType

import pytest

from zcopy.cli.context import AppContext, Settings
from zcopy.cli.streams import Streams
from zcopy.render import Look
from zcopy.units import is_on


def context(tmp_path: Path, **environ: str) -> AppContext:
    environ = {"HOME": str(tmp_path), **environ}
    settings = Settings((), MappingProxyType(environ), tmp_path, False, False, Look())
    return AppContext(settings, Streams(io.StringIO(), io.StringIO()))


def test_the_history_is_found_by_option_environment_and_configuration(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[history]\ndb = '/configured.db'\n")
    bare, configured = context(tmp_path, ZCOPY_CONFIG="none"), context(tmp_path, ZCOPY_CONFIG="c.toml")
    both = context(tmp_path, ZCOPY_CONFIG="c.toml", ZCOPY_DB="env.db")
    assert bare.db_path().name == "history.db"
    assert configured.db_path() == Path("/configured.db")
    assert both.db_path() == tmp_path / "env.db"
    assert both.db_path(Path("/option.db")) == Path("/option.db")


def test_times(tmp_path: Path) -> None:
    app = context(tmp_path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", app.timestamp())
    assert app.now().utcoffset() is not None
    assert app.ticks() <= app.ticks()


def test_each_process_has_randomness_of_its_own(tmp_path: Path) -> None:
    assert context(tmp_path).random.getrandbits(128) != context(tmp_path).random.getrandbits(128)


@pytest.mark.parametrize(
    ("text", "truth"),
    [("1", True), ("yes", True), ("TRUE", True), ("on", True), ("0", False), ("", False), ("no", False)],
)
def test_is_true(text: str, truth: bool) -> None:
    assert is_on(text) is truth
