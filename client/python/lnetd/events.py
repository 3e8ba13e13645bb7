"""Events of transfer machines."""

from __future__ import annotations

import enum
from typing import NamedTuple, Optional

from .address import Address
from .errors import LnetdError, error
from .memory import Buffer


class EventType(enum.IntEnum):
    """What an event is about: an operation, or the transfer machine."""

    RECV = 1
    SEND = 2
    PASSIVE_IN = 3
    PASSIVE_OUT = 4
    ACTIVE_IN = 5
    ACTIVE_OUT = 6
    LOST = 64
    ENDING = 65
    DOWN = 66


class EventFlags(enum.IntFlag):
    """FINAL: the operation is complete. REJECTED: lnetd has not begun it. MESSAGE: there is a message."""

    FINAL = 1
    REJECTED = 2
    MESSAGE = 4


class Direction(enum.IntEnum):
    """The direction of bulk, from the view of the side that calls."""

    IN = 0
    OUT = 1


class Event(NamedTuple):
    """An event of a transfer machine.

    ``buffer`` is None for LOST, ENDING and DOWN. ``status`` is 0 or -errno. ``offset``, ``length`` and ``peer`` are
    those of a message; ``length`` is also the number of bytes that bulk has brought, and with ENDING the seconds until
    lnetd ends. ``time`` is lnetd's CLOCK_MONOTONIC in nanoseconds, or 0.
    """

    type: EventType
    flags: EventFlags
    status: int
    buffer: Optional[Buffer]
    offset: int
    length: int
    time: int
    peer: Optional[Address]

    @property
    def final(self) -> bool:
        """Whether the operation is complete, so that the buffer is the program's again."""
        return bool(self.flags & EventFlags.FINAL)

    @property
    def message(self) -> bool:
        """Whether there is a message."""
        return bool(self.flags & EventFlags.MESSAGE)

    @property
    def error(self) -> Optional[LnetdError]:
        """What has failed, or None."""
        return error(self.status) if self.status else None

    def check(self) -> Event:
        """Return the event, or raise its error."""
        if self.status:
            raise error(self.status)
        return self

    @property
    def payload(self) -> memoryview:
        """What was received: a view of the buffer, or a copy if the buffer has several ranges."""
        if self.buffer is None:
            return memoryview(b"")
        if len(self.buffer.views) > 1:
            return memoryview(self.buffer.read(self.length, self.offset))
        return self.buffer.view[self.offset : self.offset + self.length]
