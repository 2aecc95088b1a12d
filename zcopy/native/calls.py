"""Results of native calls as Python values or exceptions."""

from __future__ import annotations

import errno
import os
from typing import TypeVar

from zcopy.errors import MeasurementError, RefusedError, ZcopyError

Fault = TypeVar("Fault", bound=ZcopyError)


class NativeError(OSError):
    """A native call returned -errno; `errno` is positive as in every OSError."""

    @property
    def name(self) -> str:
        """The symbol, e.g. ``EINVAL``."""
        return errno.errorcode.get(self.errno or 0, str(self.errno))


def check(result: int) -> int:
    """`result`, or NativeError where it is -errno."""
    if result < 0:
        raise NativeError(-result, os.strerror(-result))
    return result


def sentence(what: str, fault: OSError) -> str:
    """``WHAT: the system's reason (ERRNO)``."""
    name = errno.errorcode.get(fault.errno or 0, "?")
    return f"{what}: {fault.strerror} ({name})"


def refused(what: str, fault: OSError, hint: str = "") -> RefusedError:
    """The finding that the system said no to `what`."""
    return RefusedError(sentence(what, fault), hint)


def failed(what: str, fault: OSError, hint: str = "") -> MeasurementError:
    """A measurement that could not be completed because of `fault`."""
    return MeasurementError(sentence(what, fault), hint)
