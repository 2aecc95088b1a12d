"""`zcopy handoff --connect`: zcopy's provider for a decoder of the user's own. Nothing is measured here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zcopy.cli.handoff_params import kernel_of, one_of
from zcopy.errors import Exit, MeasurementError

if TYPE_CHECKING:
    from zcopy.cli.context import AppContext


def serve_decoder(app: AppContext, place: str, provider: str, kernel: str | None) -> int:
    """Serves until the decoder says bye. Raises MeasurementError where it ends any other way."""
    from zcopy.native.provider import helper, serve
    from zcopy.probes.handoff.params import PROVIDERS

    build = {"plain": "zcopy-provider", "asan": "zcopy-provider-asan"}[
        one_of(provider, PROVIDERS, "--provider")
    ]
    name = kernel_of(kernel or app.environ.get("ZCOPY_KERNEL", ""))
    command = [str(helper(build)), *([name] if name else [])]
    app.note(f"the provider serves the decoder at {place}")
    code = serve(app.settings.cwd / place, command, app.environ)
    if code:
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise MeasurementError(f"the provider could not go on with the decoder at {place} ({how})")
    app.note("the decoder is done")
    return Exit.OK
