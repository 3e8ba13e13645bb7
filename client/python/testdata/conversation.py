"""A program that talks with a peer (internal/testing/tmpeer): conversation.py SOCKET PEER"""

import asyncio
import errno
import selectors
import signal
import sys
import threading

import lnetd
from lnetd import Direction, EventType

MESSAGE = 512
BATCH = 8
BULK = 1 << 20
PATIENCE = 60


def pattern(seed: int, xor: int = 0) -> bytes:
    return bytes((i * 31 + (i >> 12) + seed) & 255 ^ xor for i in range(BULK))


def refused(number: int, call, *arguments, **named) -> None:
    try:
        call(*arguments, **named)
    except lnetd.LnetdError as error:
        assert error.errno == number and error.strerror, f"{error!r}, not {errno.errorcode[number]}"
    else:
        raise AssertionError(f"{call} is permitted, not {errno.errorcode[number]}")


def invalid(call, *arguments, kind=ValueError, **named) -> None:
    try:
        call(*arguments, **named)
    except kind:
        return
    raise AssertionError(f"{call} accepts {arguments} {named}")


class Conversation:
    """What is done with one transfer machine. wait is a function that waits for events."""

    def __init__(self, connection, tm, peer, wait):
        self.connection, self.tm, self.peer, self.wait = connection, tm, peer, wait
        self.final, self.messages = {}, []
        self.inbox = connection.buffer(8 * MESSAGE)
        self.out = [connection.buffer(MESSAGE, data=i) for i in range(BATCH)]
        whole = connection.alloc(BULK)
        copied = bytearray(BULK)
        parts = connection.adopt(copied)
        invalid(copied.append, 1, kind=BufferError)
        self.bulk = [
            connection.register(whole.view),
            connection.register(parts.view[: BULK // 2], parts.view[BULK // 2 :]),
        ]

    def take(self):
        while not self.tm.pending():
            self.wait()
        for event in self.tm.events():
            assert event.buffer is not None, event
            if event.message:
                self.messages.append((event, bytes(event.payload)))
            if event.final:
                self.final[event.buffer] = event

    def end(self, buffer, status=0):
        while buffer not in self.final:
            self.take()
        event = self.final.pop(buffer)
        assert event.status == -status, event
        return event

    def message(self):
        while not self.messages:
            self.take()
        event, payload = self.messages.pop(0)
        assert event.peer == self.peer, event
        return payload

    def echo(self, rounds):
        for r in range(rounds):
            self.tm.recv(self.inbox, MESSAGE, BATCH)
            sent = {}
            for k, buffer in enumerate(self.out):
                sent[k] = bytes([ord("E"), k]) + bytes((r * 37 + k * 61) % (MESSAGE - 2))
                self.tm.send(buffer, self.peer, buffer.write(sent[k]))
            self.tm.sync(PATIENCE)
            for _ in self.out:
                payload = self.message()
                assert sent.pop(payload[1]) == payload
            self.end(self.inbox)
            for k, buffer in enumerate(self.out):
                assert self.end(buffer).buffer.data == k

    def passive(self):
        """The peer fetches one buffer, and fills the other with its complement."""
        self.bulk[0].write(pattern(1))
        descriptors = self.tm.offer(self.bulk[0], Direction.OUT) + self.tm.offer(self.bulk[1], Direction.IN)
        self.tm.send(self.out[0], str(self.peer), self.out[0].write(b"P" + descriptors))
        self.end(self.out[0])
        assert self.end(self.bulk[0]).type == EventType.PASSIVE_OUT
        event = self.end(self.bulk[1])
        assert event.length == BULK and event.payload == pattern(1, 0xFF)

    def active(self):
        """Fetch a buffer of the peer and fill another one. The peer says what it has received."""
        self.tm.recv(self.inbox, MESSAGE, 2)
        self.tm.send(self.out[0], self.peer, self.out[0].write(b"A"))
        m = self.message()
        size = (len(m) - 1) // 2
        from_peer, to_peer = m[1 : 1 + size], m[1 + size :]
        self.end(self.out[0])
        refused(errno.EPERM, self.tm.move, self.bulk[0], Direction.OUT, from_peer)
        refused(errno.EINVAL, self.tm.move, self.bulk[0], Direction.IN, from_peer[:-1])
        refused(errno.EFBIG, self.tm.move, self.out[1], Direction.IN, from_peer)
        self.tm.move(self.bulk[0], Direction.IN, from_peer)
        assert self.end(self.bulk[0]).payload == pattern(7)
        self.bulk[1].write(pattern(7, 0xFF))
        self.tm.move(self.bulk[1], Direction.OUT, to_peer)
        self.end(self.bulk[1])
        assert self.message() == b"ok"
        self.end(self.inbox)

    def mistakes(self):
        """Those that do not cost the connection, and cancelling."""
        tm, bulk, out = self.tm, self.bulk[0], self.out[0]
        tm.offer(bulk, Direction.IN)
        refused(errno.EBUSY, tm.offer, bulk, Direction.IN)
        refused(errno.EBUSY, bulk.close)
        refused(errno.EBUSY, tm.stop)
        refused(errno.EBUSY, self.connection.reopen)
        refused(errno.EINVAL, tm.send, out, self.peer, MESSAGE + 1)
        refused(errno.EINVAL, tm.recv, out, 0)
        refused(errno.EINVAL, tm.send, out, "nowhere")
        refused(errno.EINVAL, tm.send, out, self.peer._replace(portal=64))
        invalid(tm.send, out, self.peer, -1)
        invalid(tm.recv, out, 1 << 32)
        invalid(tm.send, out, self.peer._replace(nid=lnetd.NID(b"short")))
        invalid(tm.offer, out, 2)
        invalid(tm.events, 0)
        invalid(tm.wait, -1)
        invalid(out.write, bytes(MESSAGE + 1))
        invalid(out.read, 1, MESSAGE)
        invalid(lambda: self.bulk[1].view)
        invalid(self.connection.alloc, 0)
        invalid(self.connection.adopt, b"constant")
        refused(errno.EINVAL, self.connection.adopt, bytearray(4096), in_place=True)
        refused(errno.EINVAL, self.connection.register, bytearray(4096))
        refused(errno.EINVAL, lnetd.NID.parse, "10.0.0.1@nothing")
        refused(errno.EINVAL, lnetd.Address.parse, "10.0.0.1@tcp:1")
        tm.cancel(bulk)
        assert self.end(bulk, errno.ECANCELED).error.errno == errno.ECANCELED
        tm.cancel(bulk)  # nothing happens
        assert not tm.wait(0) and not tm.pending() and not tm.arm() and tm.events() == []

    def batches(self):
        """lnetd sees a batch at its end, or when the program waits; it ends with an exception as well."""
        with self.tm.batch():
            self.tm.recv(self.inbox, MESSAGE)
            self.tm.send(self.out[0], self.peer, self.out[0].write(b"E batch"))
            self.connection.ping()
            assert not self.tm.pending()
        assert self.message() == b"E batch"
        self.end(self.inbox)
        self.end(self.out[0])

        def broken():
            with self.tm.batch():
                self.tm.send(self.out[0], self.peer, self.out[0].write(b"E batch"))
                raise ValueError

        self.tm.recv(self.inbox, MESSAGE)
        invalid(broken)
        assert self.message() == b"E batch"
        self.end(self.inbox)
        self.end(self.out[0])

    def interrupted(self):
        """A handler of a signal can end a wait without a limit."""

        class Alarm(Exception):
            pass

        def handler(*_):
            raise Alarm

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        invalid(self.tm.wait, kind=Alarm)
        signal.signal(signal.SIGALRM, before)

    def other_thread(self):
        """Another thread waits and receives."""
        self.tm.recv(self.inbox, MESSAGE)
        self.tm.send(self.out[0], self.peer, self.out[0].write(b"E thread"))
        got = []
        thread = threading.Thread(target=lambda: got.append(self.message()))
        thread.start()
        thread.join(PATIENCE)
        assert got == [b"E thread"]
        self.end(self.inbox)
        self.end(self.out[0])

    def in_selector(self):
        """The descriptors are for selectors."""

        def wait():
            if not self.tm.arm():
                for key, _ in selector.select(PATIENCE):
                    if key.fileobj is self.connection:
                        self.connection.process()

        with selectors.DefaultSelector() as selector:
            selector.register(self.tm, selectors.EVENT_READ)
            selector.register(self.connection, selectors.EVENT_READ)
            before, self.wait = self.wait, wait
            self.echo(3)
            self.wait = before

    def in_asyncio(self):
        """The same in the loop of asyncio."""

        async def main():
            self.tm.recv(self.inbox, MESSAGE)
            self.tm.send(self.out[0], self.peer, self.out[0].write(b"E loop"))
            events = []
            while sum(event.final for event in events) < 2:
                await asyncio.wait_for(self.tm.async_wait(), PATIENCE)
                events += self.tm.events()
            assert [bytes(event.payload) for event in events if event.message] == [b"E loop"]

        asyncio.run(main())


def own(connection, peer):
    """The address of a machine of ours on the network of the peer."""
    return next(lnetd.Address(nid, 34) for nid in connection.nids() if nid.raw[:4] == peer.nid.raw[:4])


def main(path, peer_text):
    peer = lnetd.Address.parse(peer_text)
    assert str(peer) == peer_text and lnetd.NID.parse(str(peer.nid)) == peer.nid
    with lnetd.Connection(path, "conversation") as connection:
        connection.set_patience(PATIENCE)
        connection.set_spin(20e-6)
        invalid(connection.set_spin, -1)
        refused(errno.EINVAL, connection.set_spin, 1.5)
        connection.ping()
        assert connection.process() == 0
        limits = connection.limits()
        assert limits.buffer_size >= BULK and limits.tms > 1 and not limits.polling
        with connection.tm(own(connection, peer), completions=32) as tm:
            assert 0 < tm.address.tmid < lnetd.ANY_TM and tm.address.pid == lnetd.PID
            refused(errno.EADDRINUSE, connection.tm, tm.address)
            c = Conversation(connection, tm, peer, lambda: tm.wait(PATIENCE))
            c.echo(20)
            c.passive()
            c.active()
            c.mistakes()
            c.batches()
            connection.set_spin(0)
            c.interrupted()
            c.other_thread()
            c.in_selector()
            c.in_asyncio()
            tm.send(c.out[0], peer, c.out[0].write(b"Q"))
            c.end(c.out[0])
            # The machine ends with operations in progress.
            tm.recv(c.inbox, MESSAGE, 8)
            tm.offer(c.bulk[0], Direction.IN)
        invalid(tm.events)
        with connection.tm(own(connection, peer)) as second:
            second.recv(c.inbox, MESSAGE, 8)
        c.out[0].close()
        c.out[0].close()
        invalid(lambda: tm.address)
        invalid(second.send, c.out[0], peer)
        view = c.bulk[0].view
        kept = bytes(view)
    # Views remain valid, and the rest cannot be used.
    assert view == kept
    invalid(connection.nids)
    invalid(connection.fileno)
    invalid(second.recv, c.inbox)
    connection.close()
    print("ok")


main(*sys.argv[1:])
