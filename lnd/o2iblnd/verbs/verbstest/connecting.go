package verbstest

import (
	"bytes"
	"errors"
	"net/netip"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// connect checks that both ends of a connection have the right addresses, device and port, and that events
// contain the right IDs.
func connect(s *stage) {
	a := s.a.dial(s.b.addr)
	a.SetOwner("a")
	s.must(a.Connect(param))
	ev := s.b.expect(verbs.EventConnectRequest)
	if ev.Listener != s.b.listener || ev.Local != s.b.addr || ev.Remote != a.Local() || ev.Remote.Addr() != s.a.addr.Addr() {
		s.Errorf("request at %s from %s, of a listener %v; want %s from %s", ev.Local, ev.Remote, ev.Listener == s.b.listener, s.b.addr, a.Local())
	}
	if ev.Retries != param.Retries || ev.RNRRetries != param.RNRRetries {
		s.Errorf("request with %d and %d retries, want %+v", ev.Retries, ev.RNRRetries, param)
	}
	b := s.b.pair(ev.ID)
	if b.Local() != a.Remote() || b.Remote() != a.Local() {
		s.Errorf("the ends are %s - %s and %s - %s", a.Local(), a.Remote(), b.Local(), b.Remote())
	}
	s.must(b.Accept(param))
	got := s.a.expect(verbs.EventEstablished)
	if got.ID != a || got.ID.Owner() != "a" || b.Owner() != nil {
		s.Error("the event does not lead to its owner")
	}
	s.b.expect(verbs.EventEstablished)
	s.must(b.Established()) // also after EventEstablished

	for _, e := range []struct {
		*end
		i verbs.ID
	}{{s.a, a}, {s.b, b}} {
		d, port, err := e.i.Device()
		s.must(err)
		state, err := d.Port(port)
		s.must(err)
		if d != e.dev || state.State != verbs.PortActive || state.MTU < 256 || e.i.QPN() == 0 || d.Attr().Name == "" || d.Attr().MaxWR < 1024 || d.Attr().Vectors < 1 {
			s.Errorf("device %+v (one object: %v), port %d %+v, queue pair %d", d.Attr(), d == e.dev, port, state, e.i.QPN())
		}
	}
	if a.QPN() == b.QPN() && s.a.dev.Attr().Name == s.b.dev.Attr().Name && s.AddrA == s.AddrB {
		s.Error("both queue pairs have one number")
	}
	s.part(a, b)
}

// private returns n bytes of private data.
func private(n int, fill byte) []byte { return bytes.Repeat([]byte{fill}, n) }

// checkPrivate checks that the private data of e is want, either with its exact length or followed by zeros up
// to padded bytes.
func checkPrivate(s *stage, e *verbs.Event, want []byte, padded int) {
	s.Helper()
	if e.PrivateLen != padded && e.PrivateLen != len(want) || !bytes.Equal(e.Private[:len(want)], want) || !bytes.Equal(e.Private[len(want):e.PrivateLen], make([]byte, e.PrivateLen-len(want))) {
		s.Errorf("%s with %d bytes % x, want % x in %d", e.Kind, e.PrivateLen, e.Private[:e.PrivateLen], want, padded)
	}
}

// privateData checks that private data arrives, and that it must not be too long (o2iblnd 3.5).
func privateData(s *stage) {
	a := s.a.dial(s.b.addr)
	tooLong := param
	tooLong.Private = private(verbs.MaxConnectPrivate+1, 1)
	if err := a.Connect(tooLong); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("Connect with %d bytes: %v", len(tooLong.Private), err)
	}
	call, answer := param, param
	call.Private, answer.Private = private(verbs.MaxConnectPrivate, 2), private(56, 3)
	s.must(a.Connect(call))
	ev := s.b.expect(verbs.EventConnectRequest)
	checkPrivate(s, &ev, call.Private, verbs.MaxConnectPrivate)
	b := s.b.pair(ev.ID)
	tooLong.Private = private(verbs.MaxAcceptPrivate+1, 1)
	if err := b.Accept(tooLong); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("Accept with %d bytes: %v", len(tooLong.Private), err)
	}
	if err := b.Reject(private(verbs.MaxRejectPrivate+1, 1)); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("Reject with %d bytes: %v", verbs.MaxRejectPrivate+1, err)
	}
	s.must(b.Accept(answer))
	ev = s.a.expect(verbs.EventEstablished)
	checkPrivate(s, &ev, answer.Private, verbs.MaxAcceptPrivate)
	s.b.expect(verbs.EventEstablished)
	s.part(a, b)

	a = s.a.dial(s.b.addr)
	call.Private = private(6, 4)
	s.must(a.Connect(call))
	ev = s.b.expect(verbs.EventConnectRequest)
	checkPrivate(s, &ev, call.Private, verbs.MaxConnectPrivate)
	s.must(ev.ID.Reject(nil))
	ev.ID.Destroy()
	ev = s.a.expect(verbs.EventRejected)
	checkPrivate(s, &ev, nil, verbs.MaxRejectPrivate)
	a.Destroy()
}

// reject checks that the reason and the private data of a reject arrive, and that the rejected side can try
// again.
func reject(s *stage) {
	for round := range byte(3) {
		a := s.a.dial(s.b.addr)
		s.must(a.Connect(param))
		b := s.b.expect(verbs.EventConnectRequest).ID
		why := private(24, 10+round)
		s.must(b.Reject(why))
		b.Destroy()
		ev := s.a.expect(verbs.EventRejected)
		if ev.Status != verbs.RejectConsumer || ev.ID != a {
			s.Errorf("rejected with status %d", ev.Status)
		}
		checkPrivate(s, &ev, why, verbs.MaxRejectPrivate)
		a.Destroy()
	}
	a, b := s.connect(1)
	s.part(a, b)
}

// nobodyListens checks that the connection manager rejects a request to an address without a listener (o2iblnd
// 6).
func nobodyListens(s *stage) {
	a := s.a.dial(netip.AddrPortFrom(s.AddrB, s.port+1))
	s.must(a.Connect(param))
	ev := s.a.expect(verbs.EventRejected)
	if ev.Status != verbs.RejectNoListener {
		s.Errorf("rejected with status %d, want %d", ev.Status, verbs.RejectNoListener)
	}
	checkPrivate(s, &ev, nil, verbs.MaxRejectPrivate)
	a.Destroy()
}

// nobodyThere checks that resolving an address that no host has ends with EventAddrError.
func nobodyThere(s *stage) {
	i, err := s.a.ch.Dial(verbs.Dial{From: s.AddrA, To: netip.AddrPortFrom(s.Nobody, s.port), Timeout: timeout})
	s.must(err)
	if _, _, err := i.Device(); err == nil && i.QPN() != 0 {
		s.Error("a queue pair without CreateQP")
	}
	if ev := s.a.expect(verbs.EventAddrError); ev.Status >= 0 || ev.ID != i {
		s.Errorf("%s with status %d", ev.Kind, ev.Status)
	}
	i.Destroy()
}

// destroyedUnanswered checks that a request is rejected without data if the receiver destroys its ID (o2iblnd
// 6).
func destroyedUnanswered(s *stage) {
	a := s.a.dial(s.b.addr)
	s.must(a.Connect(param))
	s.b.expect(verbs.EventConnectRequest).ID.Destroy()
	ev := s.a.expect(verbs.EventRejected)
	if ev.Status != verbs.RejectConsumer {
		s.Errorf("rejected with status %d", ev.Status)
	}
	checkPrivate(s, &ev, nil, verbs.MaxRejectPrivate)
	a.Destroy()
}

// callerGivesUp destroys the ID of a request before it is answered. The receiver must then get an error from
// Accept or an event.
func callerGivesUp(s *stage) {
	a := s.a.dial(s.b.addr)
	s.must(a.Connect(param))
	b := s.b.pair(s.b.expect(verbs.EventConnectRequest).ID)
	a.Destroy()
	if err := b.Accept(param); err == nil {
		ev := next(s, s.b.events, "word of the caller's end")
		if ev.ID != b || ev.Kind != verbs.EventRejected && ev.Kind != verbs.EventUnreachable && ev.Kind != verbs.EventConnectError {
			s.Errorf("%s, status %d", ev.Kind, ev.Status)
		}
		s.Logf("the answer came to %s, status %d", ev.Kind, ev.Status)
	} else {
		s.Logf("Accept: %v", err)
	}
	b.Destroy()
}

// listenErrors checks the errors of Listen and Dial for invalid addresses, and that several IDs can use the
// same source port.
func listenErrors(s *stage) {
	try := func(name string, addr netip.AddrPort, want error) {
		s.Helper()
		if i, err := s.b.ch.Listen(addr, 1); !errors.Is(err, want) {
			s.Errorf("%s: %v, want %v", name, err, want)
			if err == nil {
				i.Destroy()
			}
		}
	}
	try("taken", s.b.addr, syscall.EADDRINUSE)
	try("foreign", netip.AddrPortFrom(s.Foreign, s.port+2), syscall.EADDRNOTAVAIL)
	try("without a device", netip.AddrPortFrom(s.Plain, s.port+2), verbs.ErrNoDevice)
	if _, err := s.a.ch.Dial(verbs.Dial{From: s.Foreign, To: s.b.addr, Timeout: timeout}); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		s.Errorf("dialling from a foreign address: %v", err)
	}
	again, err := s.b.ch.Listen(netip.AddrPortFrom(s.AddrB, s.port+3), 1)
	s.must(err)
	again.Destroy()
	again, err = s.b.ch.Listen(netip.AddrPortFrom(s.AddrB, s.port+3), 1)
	s.must(err)
	again.Destroy()

	var ids []verbs.ID // these may all have the same source port
	for range 3 {
		i, err := s.a.ch.Dial(verbs.Dial{From: s.AddrA, To: s.b.addr, Privileged: true, Timeout: timeout})
		s.must(err)
		s.a.expect(verbs.EventAddrResolved)
		if i.Local().Port() == 0 || i.Local().Port() > 1023 {
			s.Errorf("dialling from port %d", i.Local().Port())
		}
		ids = append(ids, i)
	}
	for _, i := range ids {
		i.Destroy()
	}
}

// orderOfCalls checks that calls in a wrong state return errors.
func orderOfCalls(s *stage) {
	i, err := s.a.ch.Dial(verbs.Dial{From: s.AddrA, To: s.b.addr, Timeout: timeout})
	s.must(err)
	s.a.expect(verbs.EventAddrResolved)
	if err := i.Connect(param); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("Connect without a route: %v", err)
	}
	if _, _, err := i.Post([]verbs.Recv{s.a.recv(0)}, nil, nil); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("Post without a queue pair: %v", err)
	}
	if err := i.Fail(); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("Fail without a queue pair: %v", err)
	}
	if err := i.Disconnect(); err == nil {
		s.Error("Disconnect without a connection")
	}
	s.a.pair(i)
	if err := i.CreateQP(&verbs.QP{CQ: s.a.cq, Sends: 1, Recvs: 1, SendPieces: 1}); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("a second queue pair: %v", err)
	}
	if _, _, err := i.Post(nil, []verbs.Request{{First: 1, Count: 1}}, []verbs.Piece{s.a.piece(0, 1)}); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("Post of a piece that is not there: %v", err)
	}
	i.Destroy()
	i.Destroy()
	if err := i.Connect(param); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("Connect after Destroy: %v", err)
	}
	if _, _, err := i.Post(nil, nil, nil); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("Post after Destroy: %v", err)
	}
}
