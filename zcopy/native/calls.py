"""Results of native calls as Python values or exceptions."""

from __future__ import annotations

import errno
import os
from typing import TypeVar

from zcopy import limits
from zcopy.errors import MeasurementError, RefusedError, ZcopyError

Fault = TypeVar("Fault", bound=ZcopyError)


class ExhaustedError(MeasurementError):
    """This process has run out of descriptors: that says nothing about whatever it wanted one for."""


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
    """``WHAT: the system's reason (ERRNO)``, with the limit of this process behind it, where there is one."""
    name = errno.errorcode.get(fault.errno or 0, "?")
    return f"{what}: {fault.strerror} ({', '.join(filter(None, (name, limits.behind(fault))))})"


def refused(what: str, fault: OSError, hint: str = "") -> RefusedError | ExhaustedError:
    """The finding that the system said no to `what`; ExhaustedError where the no was not about it."""
    kind = ExhaustedError if limits.exhausted(fault) else RefusedError
    return kind(sentence(what, fault), hint)


def failed(what: str, fault: OSError, hint: str = "") -> MeasurementError:
    """A measurement that could not be completed because of `fault`."""
    return MeasurementError(sentence(what, fault), hint)
