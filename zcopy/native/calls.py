"""Results of native calls as Python values or exceptions."""

from __future__ import annotations

import errno
import os
import resource
from typing import Final, TypeVar

from zcopy.errors import MeasurementError, RefusedError, ZcopyError
from zcopy.units import size_text

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
    """``WHAT: the system's reason (ERRNO)``, with the limit that was met where the process has one."""
    name = errno.errorcode.get(fault.errno or 0, "?")
    limit = _LIMITS.get(name)
    return f"{what}: {fault.strerror} ({name}{f', {limit()}' if limit else ''})"


def refused(what: str, fault: OSError, hint: str = "") -> RefusedError | ExhaustedError:
    """The finding that the system said no to `what`; ExhaustedError where the no was not about it."""
    kind = ExhaustedError if fault.errno in (errno.EMFILE, errno.ENFILE) else RefusedError
    return kind(sentence(what, fault), hint)


def _descriptors() -> str:
    return f"ulimit -n is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}"


def _file_size() -> str:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return (
        "more than the file system takes"
        if most == resource.RLIM_INFINITY
        else f"ulimit -f is {size_text(most)}"
    )


_LIMITS: Final = {"EMFILE": _descriptors, "EFBIG": _file_size}


def failed(what: str, fault: OSError, hint: str = "") -> MeasurementError:
    """A measurement that could not be completed because of `fault`."""
    return MeasurementError(sentence(what, fault), hint)
