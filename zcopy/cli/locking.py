"""The locks' settings, from the environment and the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zcopy.cli.context import AppContext
    from zcopy.locks import LockSettings


def lock_settings(app: AppContext) -> LockSettings:
    """Where the locks of this call are: ZCOPY_LOCK_DIR, the configuration, else the built-in folders."""
    from zcopy.locks import LockSettings

    asked = app.environ.get("ZCOPY_LOCK_DIR")
    return LockSettings(
        lock_dir=app.settings.cwd / asked if asked else None,
        config_dir=app.config.lock_dir,
        files=app.config.locks,
        aliases=app.config.aliases,
        token=app.environ.get("ZCOPY_HELD"),
    )
