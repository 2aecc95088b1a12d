"""What one line says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zcopy.ingest.quantities import Quantity
from zcopy.model import Scalar


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement of an engine's.

    `case` and the phases of `ns` have the probe's names where they mean the same. `bytes` is the payload and
    `copied` what was moved in the one phase there is; None where the line does not say. `others` are its further
    numbers, `fields` what is kept as it stands.
    """

    engine: str
    case: Mapping[str, Scalar]
    ns: Mapping[str, int] = field(default_factory=dict)
    bytes: int | None = None
    copied: int | None = None
    others: Mapping[str, Quantity] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
