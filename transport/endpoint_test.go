package transport

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnet"
)

// A TM has one end point for each address, with a count of references. It forgets the end point with the last
// reference.
//
// transport-tests F (52)
// transport 3.6 (1)-(3), 6.1 (4)
func TestEndPoint(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		e, err := w.tm.EndPoint("10.0.0.1@tcp0:12345:34:7")
		w.ok(err)
		again, err := w.tm.EndPoint("10.0.0.1@tcp:12345:34:7")
		w.ok(err)
		if e != again || e.refs != 2 || e.String() != "10.0.0.1@tcp:12345:34:7" {
			t.Errorf("end points are %v and %v, with %d references", e, again, e.refs)
		}
		other, err := w.tm.EndPoint("10.0.0.1@tcp1:12345:34:7")
		w.ok(err)
		if other == e {
			t.Error("two networks, of which one's text begins with the other's, are one")
		}
		other.Put()
		e.Put()
		if e.refs != 1 || w.tm.endPoints.references != 2 {
			t.Errorf("%d references, %d of all", e.refs, w.tm.endPoints.references)
		}
		again.Put()
		again.Put()
		if e.refs != 0 || w.tm.endPoints.references != 1 {
			t.Errorf("%d references, %d of all", e.refs, w.tm.endPoints.references)
		}
		if e.Get().refs != 0 {
			t.Error("a reference came from nothing")
		}
		e, err = w.tm.EndPointAt(e.Address())
		w.ok(err)
		if e.refs != 1 || e.Get().refs != 2 {
			t.Errorf("%d references", e.refs)
		}
		e.Put()
		e.Put()
	})
}

// Addresses that cannot be the address of a peer are refused.
//
// transport-tests F (53)
// transport 3.16
func TestEndPointRefuses(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		for _, s := range []string{"", "garbage", "0@lo:12345:34:*", "0@lo:12345:34:0", "0@lo:12345:34:4096"} {
			_, err := w.tm.EndPoint(s)
			w.is(err, syscall.EINVAL)
		}
		for _, a := range []Address{{}, {NID: lnet.LoopbackNID, PID: 12345, Portal: 34}, {NID: lnet.LoopbackNID, TMID: Dynamic}} {
			_, err := w.tm.EndPointAt(a)
			w.is(err, syscall.EINVAL)
		}
		if len(w.tm.endPoints.all) != 1 {
			t.Errorf("%d end points", len(w.tm.endPoints.all))
		}
	})
}

// A TM that is not started, or is being stopped, provides no end points.
//
// transport-tests F (55)
// transport 3.6 (2)
func TestEndPointBeforeStart(t *testing.T) {
	withFixture(t, func(w *fixture) {
		_, err := w.tm.EndPointAt(peer)
		w.is(err, syscall.EINVAL)
	}, func(w *fixture) {
		w.ok(w.tm.Stop())
		_, err := w.tm.EndPointAt(peer)
		w.is(err, syscall.EINVAL)
	})
}

// The sender of a message has an end point during the callback. A program that keeps it takes a reference.
// A message that is sent holds its destination until its callback has returned.
//
// transport-tests G (66)
// transport 3.6 (5)-(6), 3.8 (5), 3.10 posting (7)
func TestReferencesOfEvents(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		var e *EndPoint
		refs := 0
		w.on = func(event *BufferEvent) {
			if event.EndPoint != nil {
				e = event.EndPoint
			}
			refs = e.refs
		}
		b := w.buffer(MsgRecv)
		b.MaxMessages = 2
		w.ok(w.tm.Add(b))
		w.fake.message(b, 0, 1)
		synctest.Wait()
		if e.Address() != peer || refs != 1 || e.refs != 0 {
			t.Errorf("end point %v, %d references in the callback, %d behind it", e, refs, e.refs)
		}
		w.on(&BufferEvent{EndPoint: e})

		send := w.buffer(MsgSend)
		if send.EndPoint != e || e.refs != 1 {
			t.Errorf("another end point, or %d references", e.refs)
		}
		w.ok(w.tm.Add(send))
		if e.refs != 2 {
			t.Errorf("%d references while it is queued", e.refs)
		}
		e.Put()
		w.held = nil
		w.fake.fail(send, syscall.EIO)
		synctest.Wait()
		w.ended(send, syscall.EIO)
		if refs != 1 || e.refs != 0 {
			t.Errorf("%d references in the callback, %d behind it", refs, e.refs)
		}
		w.is(w.tm.Add(send), syscall.EINVAL)
	})
}

// The figures of transport-tests T057: finding one of ten thousand end points costs as much as finding one of
// a few, and end points without references do not accumulate.
//
// transport-tests F (57)
// transport 3.6 (8)
func TestManyEndPoints(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		const n = 10_000
		at := func(i int) Address {
			return Address{NID: lnet.NIDFromNumber(peer.NID.Net(), uint32(i/MaxTMID)), PID: lnet.PIDLustre, Portal: 34, TMID: uint16(i%MaxTMID + 1)}
		}
		var es []*EndPoint
		for i := range n {
			e, err := w.tm.EndPointAt(at(i))
			w.ok(err)
			es = append(es, e)
		}
		for i := range n {
			if e, err := w.tm.EndPointAt(at(i)); err != nil || e != es[i] {
				t.Fatalf("end point %d: %v, %v", i, e, err)
			}
			es[i].Put()
			es[i].Put()
		}
		s := &w.tm.endPoints
		if len(s.all) > maxUnused+1 || s.unused != maxUnused || s.references != 1 {
			t.Errorf("%d end points, %d unused, %d references", len(s.all), s.unused, s.references)
		}
		// The last ones are found again, the first ones are not.
		for _, i := range []int{n - 1, n - maxUnused, n - 500} {
			if e, _ := w.tm.EndPointAt(at(i)); e != es[i] {
				t.Errorf("end point %d is another one", i)
			}
			es[i].Put()
		}
		if e, _ := w.tm.EndPointAt(at(0)); e == es[0] {
			t.Error("end point 0 was kept")
		} else {
			e.Put()
		}
		// The most recently looked up one is evicted when room is needed.
		var held []*EndPoint
		for i := range maxUnused + 2 {
			e, err := w.tm.EndPointAt(at(i))
			w.ok(err)
			held = append(held, e)
		}
		first, err := w.tm.EndPointAt(at(0))
		w.ok(err)
		first.Put()
		for _, e := range held {
			e.Put()
		}
		if s.all[at(0)] != nil {
			t.Error("end point 0 was kept")
		}
		if e, _ := w.tm.EndPointAt(at(0)); s.all[at(0)] != e {
			t.Error("end point 0 is not among all of them")
		} else {
			e.Put()
		}
		s.check(t)
	})
}

// check fails the test if the list of unused end points is inconsistent.
func (s *endPoints) check(t *testing.T) {
	t.Helper()
	chain := 0
	for e := s.oldest; e != nil; e = e.newer {
		if e.newer != nil && e.newer.older != e || e.refs != 0 {
			t.Fatal("the chain of the unused is broken")
		}
		chain++
	}
	if chain != s.unused {
		t.Errorf("%d in the chain, %d unused", chain, s.unused)
	}
}

// A TM that receives from many different senders keeps a bounded number of them.
func TestManySenders(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.buffer(MsgRecv)
		b.MaxMessages = 5000
		w.ok(w.tm.Add(b))
		c := w.fake.take(b, false)
		for i := range 5000 {
			c.Sender = peer
			c.Sender.PID = lnet.PID(i)
			w.fake.push(c)
		}
		synctest.Wait()
		if n := len(w.events); n != 5000 || len(w.tm.endPoints.all) > maxUnused+1 {
			t.Errorf("%d events, %d end points", n, len(w.tm.endPoints.all))
		}
		for i, e := range w.events {
			if got := fmt.Sprint(e.EndPoint.Address().PID); got != fmt.Sprint(lnet.PID(i)) {
				t.Fatalf("event %d is from %v", i, e.EndPoint)
			}
		}
	})
}
