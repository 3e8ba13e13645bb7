"""Errors of this package."""

from __future__ import annotations

from typing import Optional

from ._library import lib


class LnetdError(OSError):
    """A call or an operation has failed.

    ``errno`` is a number of module errno, ``strerror`` says in a sentence what went wrong.
    """


def error(result: int, text: Optional[str] = None) -> LnetdError:
    """Return the exception for a result of the library, ``-errno``. Without text it has the library's short one."""
    return LnetdError(-result, text or lib.lnetd_strerror(result).decode())


def check(result: int) -> int:
    """Return a result that is not negative, and raise LnetdError for others, with the library's reason."""
    if result < 0:
        raise error(result, lib.lnetd_text().decode())
    return result


def unsigned(value: int, what: str, bits: int = 32) -> int:
    """Return value if it is an unsigned number of so many bits. ctypes would cut off the others."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{what} is {value}, which is not between 0 and {(1 << bits) - 1}")
    return value


def milliseconds(timeout: Optional[float]) -> int:
    """Return a timeout in seconds, or None for no limit, as the library has it: rounded up, or -1."""
    if timeout is None:
        return -1
    if timeout < 0:
        raise ValueError(f"the timeout is {timeout}")
    return min(-int(-timeout * 1000 // 1), 0x7FFFFFFF)
