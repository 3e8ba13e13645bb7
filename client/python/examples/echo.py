#!/usr/bin/env python3
"""Sends every message back to its sender, and survives restarts of lnetd.

    echo.py [--socket PATH] [ADDRESS]      such as 10.0.0.1@tcp:12345:34:7
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

import lnetd

MESSAGE = 4096  # bytes of the longest message
BUFFERS = 64


def receive(tm: lnetd.TM, buffer: lnetd.Buffer) -> None:
    tm.recv(buffer, MESSAGE)


def serve(tm: lnetd.TM, buffers: list[lnetd.Buffer]) -> None:
    """Serve until the connection ends."""
    for buffer in buffers:
        receive(tm, buffer)
    tm.sync()  # from now on peers can send messages
    print(tm.address, flush=True)
    while True:
        tm.wait()
        for event in tm.events():
            if event.type == lnetd.EventType.DOWN:
                print(f"the connection has ended: {event.error}", file=sys.stderr)
                return
            if event.buffer is None or not event.final:
                continue
            with contextlib.suppress(lnetd.LnetdError):  # the connection has ended, and DOWN will come
                if event.message:
                    tm.send(event.buffer, event.peer, event.length)  # the message begins at 0
                else:
                    receive(tm, event.buffer)


def reopen(connection: lnetd.Connection) -> None:
    """Connect again, with pauses that grow."""
    pause = 0.1
    while True:
        try:
            connection.reopen()
            return
        except lnetd.LnetdError as error:
            print(f"{error.strerror}; again in {pause} s", file=sys.stderr)
            time.sleep(pause)
            pause = min(2 * pause, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description="Sends every message back to its sender.")
    parser.add_argument("--socket", help="lnetd's socket; by default the usual places")
    parser.add_argument("address", nargs="?", help="NID:12345:PORTAL:TM; by default lnetd's first NID, portal 34 and any number")
    options = parser.parse_args()
    with lnetd.Connection(options.socket, "echo") as connection:
        memory = connection.alloc(BUFFERS * MESSAGE)
        buffers = [connection.register(memory.view[i * MESSAGE : (i + 1) * MESSAGE]) for i in range(BUFFERS)]
        with connection.tm(options.address) as tm:
            while True:
                serve(tm, buffers)
                reopen(connection)


if __name__ == "__main__":
    try:
        main()
    except lnetd.LnetdError as failure:
        sys.exit(f"echo.py: {failure.strerror}")
    except KeyboardInterrupt:
        pass
