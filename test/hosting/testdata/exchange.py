"""The same as exchange.c, in Python: exchange.py echo SOCKET ADDRESS | exchange.py ask SOCKET ADDRESS PEER"""

from __future__ import annotations

import sys
import time

import lnetd

MESSAGE = 64  # bytes
RECEIVERS = 4


def echo(connection: lnetd.Connection, tm: lnetd.TM) -> None:
    """Send messages back until the program is killed."""
    for _ in range(RECEIVERS):
        tm.recv(connection.buffer(MESSAGE), MESSAGE)
    tm.sync()
    print("up", flush=True)
    while True:
        tm.wait()
        for event in tm.events():
            event.check()
            if event.message:
                tm.send(event.buffer, event.peer, event.length)
            else:
                tm.recv(event.buffer, MESSAGE)


def exchange(tm: lnetd.TM, answer: lnetd.Buffer, question: lnetd.Buffer, peer: lnetd.Address) -> None:
    """Send a message, and wait until it was sent and the answer has come."""
    tm.recv(answer, MESSAGE)
    tm.send(question, peer, MESSAGE)
    left = 2
    while left:
        assert tm.wait(60), "no answer"
        for event in tm.events():
            event.check()
            left -= 1


def ask(connection: lnetd.Connection, tm: lnetd.TM, peer: lnetd.Address) -> None:
    """Exchange as many messages as each line of the input says, and print how long that took, in ns."""
    answer, question = connection.buffer(MESSAGE), connection.buffer(MESSAGE)
    print("up", flush=True)
    for line in sys.stdin:
        began = time.monotonic_ns()
        for _ in range(int(line)):
            exchange(tm, answer, question, peer)
        print("time", time.monotonic_ns() - began, flush=True)


with lnetd.Connection(sys.argv[2]) as connection, connection.tm(sys.argv[3]) as tm:
    if sys.argv[1] == "echo":
        echo(connection, tm)
    else:
        ask(connection, tm, lnetd.Address.parse(sys.argv[4]))
