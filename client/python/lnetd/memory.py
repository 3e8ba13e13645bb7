"""Memory that lnetd can access, and buffers in it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional

from . import _library
from ._library import lib
from .errors import check

if TYPE_CHECKING:
    from .connection import Connection


def address_of(view: memoryview) -> int:
    """Return the address of the first byte of a view, which must be writable and contiguous."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def as_bytes(memory: Any) -> memoryview:
    """Return a view of the bytes of an object. It must be writable and contiguous."""
    view = memoryview(memory)
    if view.readonly or not view.c_contiguous or view.nbytes == 0:
        raise ValueError("the memory is empty, not contiguous, or not writable")
    return view.cast("B")


class Memory:
    """Memory of Connection.alloc() or Connection.adopt(), of which buffers can be made.

    The memory belongs to Python. Views of it remain valid when it is freed, or the connection is closed.
    """

    def __init__(self, connection: Connection, view: memoryview, flags: int) -> None:
        self._connection = connection
        self._view = view
        # It exists as long as the library uses the memory, so that its owner can neither move nor unmap it.
        self._pin: Optional[Any] = ctypes.c_char.from_buffer(view)
        self._address = ctypes.addressof(self._pin)
        try:
            check(lib.lnetd_adopt(connection._use(), self._address, len(view), flags))
        except BaseException:
            self._pin = None
            raise

    @property
    def view(self) -> memoryview:
        """All of the memory."""
        return self._view

    def free(self) -> None:
        """End the use of the memory by lnetd. It raises LnetdError (EBUSY) if a buffer uses it."""
        if self._pin is None:
            return
        check(lib.lnetd_free(self._connection._use(), self._address))
        self._connection._memories.discard(self)
        self._pin = None

    def _closed(self) -> None:
        self._pin = None

    def __len__(self) -> int:
        return len(self._view)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


class Buffer:
    """A buffer of lnetd: one or more ranges of memory, one after the other.

    From the call that begins an operation to its final event the buffer is lnetd's: do not write to it, and do not
    read what is received.
    """

    def __init__(self, connection: Connection, views: tuple[memoryview, ...], data: Any, owned: Optional[Memory]) -> None:
        self.data = data
        self._connection = connection
        self._views = views
        self._size = sum(map(len, views))
        self._owned = owned
        ranges = (_library.Iovec * len(views))(*(_library.Iovec(address_of(view), len(view)) for view in views))
        buffer = ctypes.c_void_p()
        check(lib.lnetd_register(connection._use(), ranges, len(views), None, ctypes.byref(buffer)))
        self._handle: Optional[int] = buffer.value

    @property
    def views(self) -> tuple[memoryview, ...]:
        """The ranges."""
        return self._views

    @property
    def view(self) -> memoryview:
        """The memory of a buffer with one range. It raises ValueError if there are several."""
        if len(self._views) > 1:
            raise ValueError(f"the buffer has {len(self._views)} ranges; use views, read() and write()")
        return self._views[0]

    def __len__(self) -> int:
        return self._size

    def read(self, length: Optional[int] = None, offset: int = 0) -> bytes:
        """Return a copy of length bytes from offset on, by default of all."""
        length = self._size - offset if length is None else length
        self._check_range(offset, length)
        return b"".join(self._parts(offset, length))

    def write(self, data: Any, offset: int = 0) -> int:
        """Copy bytes into the buffer, at offset, and return how many there were."""
        source = memoryview(data).cast("B")
        self._check_range(offset, len(source))
        done = 0
        for part in self._parts(offset, len(source)):
            part[:] = source[done : done + len(part)]
            done += len(part)
        return done

    def _check_range(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise ValueError(f"{length} bytes at {offset} are not in a buffer of {self._size}")

    def _parts(self, offset: int, length: int) -> list[memoryview]:
        parts = []
        for view in self._views:
            part = view[offset : offset + length] if offset < len(view) else view[:0]
            offset = max(offset - len(view), 0)
            length -= len(part)
            parts.append(part)
        return parts

    def close(self) -> None:
        """Deregister the buffer, and free its memory if it has its own.

        It raises LnetdError (EBUSY) if the buffer has an operation.
        """
        if self._handle is not None:
            handle = self._use()
            with self._connection._lock:
                check(lib.lnetd_deregister(handle))
                del self._connection._buffers[handle]
                self._handle = None
        if self._owned is not None:
            self._owned.free()

    def _use(self) -> int:
        if self._handle is None:
            raise ValueError("the buffer is closed")
        self._connection._use()
        return self._handle

    def _closed(self) -> None:
        self._handle = None

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
