"""Connections to lnetd."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import warnings
from typing import Any, NamedTuple, Optional, Union

from . import _library
from ._library import lib
from .address import ANY_TM, NID, Address, to_c
from .errors import check, milliseconds, unsigned
from .memory import Buffer, Memory, as_bytes
from .tm import TM


class Limits(NamedTuple):
    """Limits and quotas of a connection: struct lnetd_limits."""

    buffer_size: int
    memory: int
    incarnation: int
    connection: int
    tms: int
    buffers: int
    areas: int
    completions: int
    range_size: int
    ranges: int
    descriptor_size: int
    polling: bool


class Connection:
    """A connection to lnetd, with the memory, buffers and transfer machines that belong to it.

    ``path`` is lnetd's socket; without it, the usual places are searched. ``program`` is a name for displays, by
    default that of the executable. With ``polling`` lnetd polls for operations before it sleeps, if it is configured
    to. The constructor blocks until lnetd answers. It raises LnetdError: ENOENT or ECONNREFUSED if no lnetd runs
    there, EACCES if its rules do not permit the connection.

    As a context manager it closes itself. Any thread may call any method, but close() and reopen() need a connection
    that no other thread uses. A child made by os.fork() may only close it.
    """

    def __init__(
        self, path: Optional[Union[str, os.PathLike[str]]] = None, program: Optional[str] = None, *, polling: bool = False
    ) -> None:
        self._handle: Optional[int] = None
        self._lock = threading.Lock()  # _buffers has what the library has registered
        self._memories: set[Memory] = set()
        self._buffers: dict[int, Buffer] = {}
        self._tms: set[TM] = set()
        handle = ctypes.c_void_p()
        check(
            lib.lnetd_open(
                ctypes.byref(handle),
                None if path is None else os.fsencode(path),
                None if program is None else program.encode(),
                _library.POLLING if polling else 0,
            )
        )
        self._handle = handle.value

    def close(self) -> None:
        """Close the connection, and end all that belongs to it. It does not block. Operations end without events."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        lib.lnetd_close(handle)
        for user in (*self._tms, *self._buffers.values(), *self._memories):
            user._closed()
        self._tms.clear()
        self._buffers.clear()
        self._memories.clear()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._handle is None

    def _use(self) -> int:
        if self._handle is None:
            raise ValueError("the connection is closed")
        return self._handle

    def fileno(self) -> int:
        """Return the descriptor of the connection. If it is readable, call process(). It changes in reopen()."""
        return lib.lnetd_fd(self._use())

    def process(self) -> int:
        """Read what lnetd has sent. It does not block.

        It returns 0, or the seconds until lnetd ends, if lnetd has announced that. It raises LnetdError if the
        connection has ended: EPIPE if lnetd has died, ESHUTDOWN if it has stopped, or another reason. Then take the
        events of each transfer machine up to DOWN, and call reopen() or close().
        """
        return check(lib.lnetd_process(self._use()))

    def reopen(self) -> None:
        """Connect again, after the connection has ended and all events up to DOWN were taken.

        All memory, buffers and transfer machines continue to exist; their descriptors change. If it raises LnetdError,
        it can be called again; wait between attempts.
        """
        check(lib.lnetd_reopen(self._use()))

    def ping(self) -> None:
        """Wait until lnetd answers. It raises LnetdError (ETIMEDOUT) if it does not; the connection has ended then."""
        check(lib.lnetd_ping(self._use()))

    def set_patience(self, seconds: float) -> None:
        """Set how long lnetd may send nothing while a request waits for its reply. It is 10 s by default."""
        check(lib.lnetd_set_patience(self._use(), milliseconds(seconds)))

    def set_spin(self, seconds: float) -> None:
        """Set how long TM.wait() and TM.sync() look for what they wait for before they sleep, 50 µs by default.

        At most it is 1 s. It is shorter while that finds nothing. With 0 they sleep at once.
        """
        check(lib.lnetd_set_spin(self._use(), unsigned(round(seconds * 1e6), "the microseconds")))

    def limits(self) -> Limits:
        """Return the limits and quotas of the connection."""
        limits = _library.Limits(size=ctypes.sizeof(_library.Limits))
        check(lib.lnetd_limits(self._use(), ctypes.byref(limits)))
        values = {name: getattr(limits, name) for name in Limits._fields}
        return Limits(**{**values, "polling": bool(limits.polling)})

    def nids(self) -> list[NID]:
        """Return lnetd's NIDs."""
        room = 16
        while True:
            nids = (_library.Nid * room)()
            n = check(lib.lnetd_nids(self._use(), nids, room))
            if n <= room:
                return [NID(bytes(nid.bytes)) for nid in nids[:n]]
            room = n

    def alloc(self, size: int) -> Memory:
        """Allocate zeroed memory that lnetd can access without a copy. It has whole pages, so it may be larger."""
        if size < 1:
            raise ValueError(f"the size of memory is {size}")
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, pages, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return self._adopt(memoryview(memory), _library.IN_PLACE)

    def adopt(self, memory: Any, *, in_place: bool = False) -> Memory:
        """Make the memory of an object usable, such as a bytearray or an array of numpy.

        Each operation copies the bytes. With ``in_place`` it does not: the pages are replaced by shared pages with the
        same content, which must be whole pages of private anonymous memory; lnetd.h describes the consequences.
        """
        return self._adopt(as_bytes(memory), _library.IN_PLACE if in_place else _library.COPY)

    def _adopt(self, view: memoryview, flags: int) -> Memory:
        memory = Memory(self, view, flags)
        self._memories.add(memory)
        return memory

    def register(self, *ranges: Any, data: Any = None) -> Buffer:
        """Create a buffer of ranges: views of memory of alloc() or adopt(). ``data`` is the program's: Buffer.data."""
        return self._register(tuple(as_bytes(view) for view in ranges), data, None)

    def buffer(self, size: int, data: Any = None) -> Buffer:
        """Create a buffer with memory of its own, which Buffer.close() frees."""
        memory = self.alloc(size)
        try:
            return self._register((memory.view[:size],), data, memory)
        except BaseException:
            memory.free()
            raise

    def _register(self, views: tuple[memoryview, ...], data: Any, owned: Optional[Memory]) -> Buffer:
        with self._lock:
            buffer = Buffer(self, views, data, owned)
            self._buffers[buffer._use()] = buffer
            return buffer

    def tm(self, address: Optional[Union[Address, str]] = None, *, portal: int = 34, completions: int = 0) -> TM:
        """Start a transfer machine.

        Without an address it has lnetd's first NID, the portal, and any free number. ``completions`` is the size of its
        completion ring, 0 for the default. It raises LnetdError: EACCES, EADDRINUSE, EADDRNOTAVAIL, ENOENT (lnetd does
        not have the NID), EDQUOT.
        """
        if address is None:
            nids = self.nids()
            if not nids:
                raise ValueError("lnetd has no NID")
            address = Address(nids[0], portal, ANY_TM)
        tm = TM(self, to_c(address), unsigned(completions, "completions"))
        self._tms.add(tm)
        return tm

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.close()
