"""LNet through the lnetd of this host, over liblnetd.

lnetd hosts transfer machines for the program, over a Unix socket and shared memory: the program sends and receives
messages, and moves bulk data directly between its memory and that of a peer. docs/liblnetd.md is the guide, lnetd(3)
the manual of the library.

    import lnetd

    with lnetd.Connection() as connection, connection.tm() as tm:
        buffer = connection.buffer(4096)
        length = buffer.write(b"hello")
        tm.send(buffer, "10.0.0.2@tcp:12345:34:7", length)
        tm.wait()
        for event in tm.events():
            event.check()
"""

from .address import ANY_TM, NID, PID, Address
from .connection import Connection, Limits
from .errors import LnetdError
from .events import Direction, Event, EventFlags, EventType
from .memory import Buffer, Memory
from .tm import TM

__all__ = [
    "ANY_TM",
    "NID",
    "PID",
    "TM",
    "Address",
    "Buffer",
    "Connection",
    "Direction",
    "Event",
    "EventFlags",
    "EventType",
    "Limits",
    "LnetdError",
    "Memory",
]
