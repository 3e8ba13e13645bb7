"""Transfer machines."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import threading
import time
from typing import TYPE_CHECKING, Callable, Iterator, Optional, Union

from . import _library
from ._library import lib
from .address import Address, to_c
from .errors import LnetdError, check, milliseconds, unsigned
from .events import Direction, Event, EventFlags, EventType
from .memory import Buffer

if TYPE_CHECKING:
    from .connection import Connection

# The main thread sleeps so long at a time, in milliseconds: Python runs handlers of signals, such as that of Ctrl-C,
# only between calls of the library.
SLICE = 200


def _wait(call: Callable[[int], int], timeout: Optional[float], again: Callable[[int], bool]) -> int:
    """Call a function that waits for so many milliseconds, in slices, while again(result) holds."""
    left = milliseconds(timeout)
    if threading.current_thread() is not threading.main_thread():
        return call(left)
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        result = call(SLICE if left < 0 else min(left, SLICE))
        if not again(result):
            return result
        if end is not None:
            left = milliseconds(max(end - time.monotonic(), 0))
            if left == 0:
                return result


class TM:
    """A transfer machine: an address, with operations and events. Connection.tm() starts it.

    As a context manager it cancels its operations at the end, and stops. Any thread may call any method, but only one
    at a time may wait for events, and stop() needs a machine that no other thread uses.

    The methods that begin an operation do not block. They raise LnetdError: EBUSY if the buffer has an operation,
    EINVAL for an argument, EAGAIN if lnetd must first carry out earlier ones (call sync(), and repeat), or the error of
    Connection.process(). Each operation gets exactly one final event, also if lnetd dies.
    """

    def __init__(self, connection: Connection, address: _library.Addr, completions: int) -> None:
        self._connection = connection
        handle = ctypes.c_void_p()
        check(lib.lnetd_tm_start(connection._use(), ctypes.byref(address), completions, ctypes.byref(handle)))
        self._handle: Optional[int] = handle.value

    def _use(self) -> int:
        if self._handle is None:
            raise ValueError("the transfer machine is stopped")
        self._connection._use()
        return self._handle

    def _closed(self) -> None:
        self._handle = None

    def stop(self) -> None:
        """Stop the machine. It raises LnetdError (EBUSY) if the final event of an operation was not taken."""
        if self._handle is not None:
            check(lib.lnetd_tm_stop(self._use()))
            self._connection._tms.discard(self)
            self._handle = None

    @property
    def address(self) -> Address:
        """The address, with the machine's number."""
        address = _library.Addr()
        lib.lnetd_tm_addr(self._use(), ctypes.byref(address))
        return Address._of(address)

    # ---- operations ----

    def recv(self, buffer: Buffer, longest: Optional[int] = None, messages: int = 1) -> None:
        """Receive messages of up to longest bytes, by default one that may fill the buffer.

        The operation ends after the number of messages, or when less than longest bytes of room are left.
        """
        longest = len(buffer) if longest is None else longest
        check(lib.lnetd_recv(self._use(), buffer._use(), unsigned(longest, "longest"), unsigned(messages, "messages")))

    def send(self, buffer: Buffer, to: Union[Address, str], length: Optional[int] = None) -> None:
        """Send the first length bytes of a buffer, by default all, as a message."""
        address = to_c(to)
        check(lib.lnetd_send(self._use(), buffer._use(), self._length(buffer, length), ctypes.byref(address)))

    def offer(self, buffer: Buffer, direction: Direction, length: Optional[int] = None) -> bytes:
        """Offer a buffer to one peer (passive bulk), and return the descriptor for it.

        OUT: the peer fetches the first length bytes, by default all. IN: the peer fills the buffer.
        """
        desc = _library.Desc()
        size = self._length(buffer, length)
        check(lib.lnetd_offer(self._use(), buffer._use(), Direction(direction), size, ctypes.byref(desc)))
        return bytes(desc.bytes[: desc.size])

    def offer_bits(self, buffer: Buffer, direction: Direction, length: Optional[int] = None) -> int:
        """Offer a buffer like offer(), and return only the match bits, for programs with their own descriptors."""
        bits = ctypes.c_uint64()
        size = self._length(buffer, length)
        check(lib.lnetd_offer_bits(self._use(), buffer._use(), Direction(direction), size, ctypes.byref(bits)))
        return bits.value

    def move(self, buffer: Buffer, direction: Direction, descriptor: bytes, length: Optional[int] = None) -> None:
        """Move the data of what a peer offers with a descriptor (active bulk).

        IN fetches everything that is offered. OUT sends the first length bytes of the buffer, by default all. Further
        errors: EINVAL: the descriptor is damaged; EPERM: it offers the other direction; EFBIG: the buffer, or the
        peer's, is too small.
        """
        desc = bytes(descriptor)
        size = self._length(buffer, length)
        check(lib.lnetd_move(self._use(), buffer._use(), Direction(direction), size, desc, len(desc)))

    def move_bits(
        self, buffer: Buffer, direction: Direction, length: int, peer: Union[Address, str], match_bits: int
    ) -> None:
        """Move length bytes like move(), with the peer's address and match bits."""
        address = to_c(peer)
        bits = unsigned(match_bits, "match_bits", 64)
        size = self._length(buffer, length)
        check(
            lib.lnetd_move_bits(self._use(), buffer._use(), Direction(direction), size, ctypes.byref(address), bits)
        )

    def cancel(self, buffer: Buffer) -> None:
        """Cancel the operation of a buffer. Its final event then has ECANCELED, or the result that it would have had."""
        check(lib.lnetd_cancel(self._use(), buffer._use()))

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Show lnetd all operations that are submitted in a with statement at its end, and wake it once.

        lnetd also sees them when a thread calls sync(), wait() or arm(), and when they fill the submission ring.
        """
        check(lib.lnetd_begin(self._use()))
        try:
            yield
        finally:
            if self._handle is not None and not self._connection.closed:
                check(lib.lnetd_commit(self._use()))

    def sync(self, timeout: Optional[float] = None) -> None:
        """Wait until lnetd has carried out what was submitted: then peers can reach the buffers.

        It raises LnetdError (ETIMEDOUT) after timeout seconds.
        """
        handle = self._use()
        check(_wait(lambda ms: lib.lnetd_sync(handle, ms), timeout, lambda result: result == -errno.ETIMEDOUT))

    @staticmethod
    def _length(buffer: Buffer, length: Optional[int]) -> int:
        return len(buffer) if length is None else unsigned(length, "length")

    # ---- events ----

    def events(self, most: int = 64) -> list[Event]:
        """Take up to most events, in their order. It does not block. After DOWN it raises LnetdError."""
        if most < 1:
            raise ValueError(f"{most} events cannot be taken")
        events = (_library.Event * most)()
        n = check(lib.lnetd_events(self._use(), events, most))
        return [self._event(event) for event in events[:n]]

    def _event(self, e: _library.Event) -> Event:
        flags = EventFlags(e.flags)
        buffer = self._connection._buffers[e.buffer] if e.buffer else None
        peer = Address._of(e.peer) if flags & EventFlags.MESSAGE else None
        return Event(EventType(e.type), flags, e.status, buffer, e.offset, e.length, e.time, peer)

    def pending(self) -> bool:
        """Return whether there are events to take. Any thread may call it at any time."""
        return lib.lnetd_pending(self._use()) == 1

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait for events, at most timeout seconds, and return whether there are any.

        It raises LnetdError: EBUSY: another thread waits; ETIMEDOUT: lnetd does not answer.
        """
        handle = self._use()
        return check(_wait(lambda ms: lib.lnetd_wait(handle, ms), timeout, lambda result: result == 0)) == 1

    def fileno(self) -> int:
        """Return a descriptor for selectors and asyncio, for reading. Call arm() before each sleep.

        It changes in Connection.reopen().
        """
        return lib.lnetd_tm_fd(self._use())

    def arm(self) -> bool:
        """Return whether there are events. If not, the descriptor becomes readable as soon as there are any."""
        return check(lib.lnetd_tm_arm(self._use())) == 1

    async def async_wait(self) -> None:
        """Wait for events in asyncio's loop. Have the loop call Connection.process() for the connection's descriptor."""
        loop = asyncio.get_running_loop()
        while not self.arm():
            fd, readable = self.fileno(), loop.create_future()
            loop.add_reader(fd, lambda: readable.done() or readable.set_result(None))
            try:
                await readable
            finally:
                loop.remove_reader(fd)

    # ---- the end ----

    def __enter__(self) -> TM:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None and not self._connection.closed:
            self._finish()

    def _finish(self) -> None:
        """Cancel all operations, take their events, and stop."""
        for buffer in tuple(self._connection._buffers.values()):
            if not self._cancelled(buffer):
                break
        while True:
            try:
                self.stop()
                return
            except LnetdError as error:
                if error.errno != errno.EBUSY:
                    raise
            if self.wait():
                self.events()

    def _cancelled(self, buffer: Buffer) -> bool:
        """Cancel an operation, and return False if the connection has ended, which ends all operations."""
        while True:
            try:
                self.cancel(buffer)
                return True
            except LnetdError as error:
                if error.errno != errno.EAGAIN:
                    return False
            try:
                self.sync()
            except LnetdError:
                return False
