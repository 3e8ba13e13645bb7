"""Sends messages to a server that echoes them: ask.py SOCKET ADDRESS"""

import sys

import lnetd

with lnetd.Connection(sys.argv[1]) as connection, connection.tm() as tm:
    question, answer = connection.buffer(4096), connection.buffer(4096)
    for size in (1, 100, 4096):
        text = bytes(i & 255 for i in range(size))
        tm.recv(answer)
        tm.send(question, sys.argv[2], question.write(text))
        finals = 0
        while finals < 2:
            assert tm.wait(60), "no answer"
            for event in tm.events():
                event.check()
                finals += event.final
                if event.message:
                    assert event.payload == text
print("ok")
