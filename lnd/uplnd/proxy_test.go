package uplnd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

func numbered(k uint32) lnet.NID { return lnet.NIDFromNumber(proxied, 0x0a000000+k) }

var (
	self = numbered(1)
	peer = lnet.ProcessID{NID: numbered(2), PID: lnet.PIDLustre}
)

// header is that of a PUT from the peer with n bytes.
func header(n uint32) lnet.Header {
	return lnet.Header{Type: lnet.MsgPut, Src: peer.NID, SrcPID: peer.PID, Dest: self, DestPID: lnet.PIDLustre, PayloadLength: n, Handle: lnet.NoHandle}
}

// Processes that cannot become proxies get an errno and a text.
//
// UP-2, UP-8
func TestAttach(t *testing.T) {
	s := newSite(t, uplnd.Config{MaxProxies: 1, Admit: func(_ *net.UnixConn, p *uplnd.Proxy) (terms uplnd.Terms, err error) {
		if p.Name == "bad" {
			err = fmt.Errorf("no rule for %s: %w", p.Name, syscall.EACCES)
		}
		return terms, err
	}})
	openNI(t, s, self)
	other, err := s.driver.Open(t.Context(), lnd.Config{NID: lnet.NIDFromNumber(proxied, 7), Upper: newUpper()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	valid := func(change func(a *protocol.Attach)) []byte {
		a := protocol.Attach{Net: proxied, NID: self, Name: "test"}
		change(&a)
		return a.Append(nil)
	}
	for _, c := range []struct {
		record []byte
		errno  syscall.Errno
		text   string
	}{
		{valid(func(a *protocol.Attach) { a.Net, a.NID = lnet.MakeNet(lnet.TypeTCP, 9), lnet.NID{} }), syscall.ENODEV, "tcp9"},
		{valid(func(a *protocol.Attach) { a.NID = numbered(9) }), syscall.ENODEV, "10.0.0.9@tcp"},
		{valid(func(a *protocol.Attach) { a.NID = lnet.NID{} }), syscall.ENOTUNIQ, "name one"},
		{valid(func(a *protocol.Attach) { a.Name = "bad" }), syscall.EACCES, "no rule"},
		{[]byte("hello, lnetd"), syscall.EPROTO, "magic"},
		{valid(func(*protocol.Attach) {})[:20], syscall.EPROTO, "length"},
		{append(valid(func(*protocol.Attach) {}), 0), syscall.EPROTO, "length"},
	} {
		_, _, _, err := request(s.socket, c.record)
		if !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %v about %s", err, c.errno, c.text)
		}
	}
	attach(t, s, self)
	if _, _, _, err := request(s.socket, valid(func(*protocol.Attach) {})); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("a second proxy where one is allowed: %v", err)
	}
}

// The PID selects the proxy. A PID belongs to one proxy, and is free after that has left. Messages to other PIDs
// fail.
//
// UP-3, UP-8, UP-9
func TestPIDs(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	u.put(peer, 1, nil)
	u.await(t, "sent 1: remote dropped")
	a, b := attach(t, s, self), attach(t, s, self)
	a.ready(lnet.PIDLustre)
	u.await(t, "link up")
	b.report(protocol.Entry{Op: protocol.RegisterPID, Peer: lnet.ProcessID{PID: lnet.PIDLustre}})
	if e := b.order(protocol.PID); e.Cause != protocol.CauseBusy {
		t.Errorf("a PID of two proxies: %+v", e)
	}
	b.report(protocol.Entry{Op: protocol.AllocatePID})
	pid := b.order(protocol.PID).Peer.PID
	if pid&lnet.PIDUserFlag == 0 {
		t.Errorf("PID %v is not that of a user's process", pid)
	}
	u.put(lnet.ProcessID{NID: peer.NID, PID: pid}, 2, []byte("to b"))
	u.put(peer, 3, []byte("to a"))
	for number, f := range map[uint64]*fake{2: b, 3: a} {
		e := f.order(protocol.Send)
		if e.Header.MatchBits != number || !bytes.HasPrefix(f.area.Bytes()[e.Offset:], []byte("to ")) {
			t.Errorf("message %d: %+v", number, e)
		}
		f.report(protocol.Entry{Op: protocol.Sent, Handle: e.Handle})
		u.await(t, fmt.Sprintf("sent %d: ok", number))
	}
	b.leave()
	u.awaitProxies(1)
	u.put(lnet.ProcessID{NID: peer.NID, PID: pid}, 4, nil)
	u.await(t, "sent 4: remote dropped")
	u.put(peer, 5, nil)
	a.order(protocol.Send)
}

// An arrival in each of its ways: with its payload or header first, placed at once, later or not at all,
// refused by the node, and withdrawn.
//
// UP-4, UP-6, UP-7, MPI-28
func TestArrivals(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	f := attach(t, s, self)
	f.ready(lnet.PIDLustre)
	payload := []byte("payload")
	n := uint32(len(payload))
	copy(f.area.Bytes()[f.half:], payload)
	ahead := protocol.Entry{Op: protocol.Arrived, Handle: 5, Peer: peer, Header: header(n), HasPayload: true, Offset: f.half}
	first := protocol.Entry{Op: protocol.Arrived, Handle: 6, Peer: peer, Header: header(n)}
	check := func(name string) {
		t.Helper()
		u.await(t, "received 7: ok")
		if !bytes.HasPrefix(u.memory, payload) {
			t.Errorf("%s: payload %q", name, u.memory[:n])
		}
		clear(u.memory)
	}

	f.report(ahead)
	f.order(protocol.Done)
	check("ahead")

	u.set(&u.hold, true)
	f.report(ahead)
	f.order(protocol.Wait)
	u.placeHeld()
	f.order(protocol.Done)
	check("again")

	u.set(&u.hold, false)
	f.report(first)
	if e := f.order(protocol.Take); e.Length != n {
		t.Errorf("take %d bytes", e.Length)
	}
	f.report(protocol.Entry{Op: protocol.Payload, Handle: 6, Length: n, Offset: f.half})
	f.order(protocol.Done)
	check("header first")

	f.report(first)
	f.order(protocol.Take)
	failed := protocol.Entry{Op: protocol.Payload, Handle: 6}
	failed.SetError(lnd.ErrTimeout)
	f.report(failed)
	f.order(protocol.Done)
	u.await(t, "received 7: local error")

	u.set(&u.hold, true)
	f.report(first, protocol.Entry{Op: protocol.Withdrawn, Handle: 6})
	f.order(protocol.Done)
	u.await(t, "withdrawn")
	u.await(t, "received 7: network timeout")

	u.set(&u.refuse, true)
	f.report(first)
	f.order(protocol.Refuse)
}

// When a proxy dies, everything it held completes: messages that it was sending, messages that wait, and
// arrivals. Its peers are down, and so is the link. Another proxy takes its place.
//
// UP-2, UP-5
func TestDeath(t *testing.T) {
	s := newSite(t, uplnd.Config{AreaSize: 2 << 20})
	u := openNI(t, s, self)
	u.set(&u.hold, true)
	for range 3 {
		f := attach(t, s, self)
		f.ready(lnet.PIDLustre)
		u.await(t, "link up")
		f.report(protocol.Entry{Op: protocol.Arrived, Handle: 1, Peer: peer, Header: header(9)})
		u.await(t, "held")
		u.put(peer, 1, make([]byte, lnet.MTU))
		u.put(peer, 2, make([]byte, lnet.MTU)) // no buffer is free
		f.order(protocol.Send)
		f.leave()
		for _, want := range []string{
			"lost 10.0.0.2@tcp", "down 10.0.0.2@tcp: remote error", "sent 1: remote error", "sent 2: remote dropped", "withdrawn",
			"received 9: remote error", "link down",
		} {
			u.await(t, want)
		}
	}
}

// A proxy that breaks the protocol is cut off with a reason, and its user cannot attach another one for a
// while. Other proxies are not affected.
func TestViolations(t *testing.T) {
	arrived := protocol.Entry{Op: protocol.Arrived, Handle: 1, Peer: peer, Header: header(9)}
	changed := func(f func(e *protocol.Entry)) protocol.Entry {
		e := arrived
		f(&e)
		return e
	}
	for name, list := range map[string][]protocol.Entry{
		"has sent a message it does not have": {{Op: protocol.Sent, Handle: 1}},
		"a payload not asked for":             {{Op: protocol.Payload, Handle: 1}},
		"a complete arrival is withdrawn": {
			changed(func(e *protocol.Entry) { e.HasPayload, e.Offset = true, 16<<20 }), {Op: protocol.Withdrawn, Handle: 1},
		},
		"an arrival twice": {arrived, arrived},
		"a payload outside the area": {changed(func(e *protocol.Entry) {
			e.HasPayload, e.Offset = true, 32<<20-8
		})},
		"a payload in lnetd's half":  {changed(func(e *protocol.Entry) { e.HasPayload = true })},
		"a message of another net":   {changed(func(e *protocol.Entry) { e.Peer.NID = lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 3), 1) })},
		"a message of the NI itself": {changed(func(e *protocol.Entry) { e.Peer.NID = self })},
		"a peer of another net":      {{Op: protocol.Lost, Peer: lnet.ProcessID{NID: lnet.LoopbackNID}}},
		"down without a status":      {{Op: protocol.PeerDown, Peer: peer}},
		"an order":                   {{Op: protocol.Send}},
		"nothing":                    {{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, uplnd.Config{})
			u := openNI(t, s, self)
			u.set(&u.hold, true)
			good := attach(t, s, self)
			good.ready(lnet.PIDLustre)
			bad := attach(t, s, self)
			bad.report(list...)
			if err := bad.cutOff(); !errors.Is(err, syscall.EPROTO) {
				t.Errorf("cut off because of %v", err)
			}
			for { // until the user is in quarantine
				_, conn, _, err := request(s.socket, (&protocol.Attach{Net: proxied, Name: "next"}).Append(nil))
				if errors.Is(err, syscall.EAGAIN) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				_ = conn.Close()
			}
			u.put(peer, 1, nil)
			good.report(protocol.Entry{Op: protocol.Sent, Handle: good.order(protocol.Send).Handle})
			u.await(t, "sent 1: ok")
		})
	}
}

// A proxy that reads no order is detached after Config.Patience, and its messages fail.
func TestHungProxy(t *testing.T) {
	s := newSite(t, uplnd.Config{Patience: 50 * time.Millisecond, Quarantine: -1})
	u := openNI(t, s, self)
	f := attach(t, s, self)
	f.ready(lnet.PIDLustre)
	u.await(t, "link up")
	u.put(peer, 1, nil)
	if err := f.cutOff(); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
	u.await(t, "sent 1: remote error")
}

// News about peers reaches the node in order.
func TestNewsAboutPeers(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	f := attach(t, s, self)
	down := protocol.Entry{Op: protocol.PeerDown, Peer: peer, Time: 1}
	down.SetError(&lnd.Error{Status: lnd.StatusNetworkTimeout, Err: lnd.ErrTimeout})
	f.report(
		protocol.Entry{Op: protocol.Restarted, Peer: peer}, protocol.Entry{Op: protocol.Lost, Peer: peer},
		protocol.Entry{Op: protocol.Stalled, Peer: peer, Time: 5}, protocol.Entry{Op: protocol.Stalled, Peer: peer}, down,
		protocol.Entry{Op: protocol.Link, Up: true},
	)
	u.await(t, "link up")
	u.mu.Lock()
	got := strings.Join(u.events, ", ")
	u.mu.Unlock()
	want := "restarted 10.0.0.2@tcp, lost 10.0.0.2@tcp, stalled 10.0.0.2@tcp true, stalled 10.0.0.2@tcp false, down 10.0.0.2@tcp: network timeout"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Entries of random bytes, and valid entries in a random order: lnetd survives, and serves another proxy.
func TestHostileProxy(t *testing.T) {
	s := newSite(t, uplnd.Config{AreaSize: 2 << 20, Quarantine: -1})
	u := openNI(t, s, self)
	good := attach(t, s, self)
	good.ready(lnet.PIDLustre)
	u.await(t, "link up")
	r := rand.New(rand.NewPCG(1, 1))
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	for k := range rounds {
		bad := attach(t, s, self)
		for range r.IntN(20) {
			var b [protocol.EntrySize]byte
			e := protocol.Entry{
				Op: protocol.Sent + protocol.Op(r.IntN(12)), Status: lnd.Status(r.IntN(11)), Handle: uint64(r.IntN(3)), Peer: peer,
				Header: header(uint32(r.IntN(3)) << r.IntN(20)), HasPayload: r.IntN(2) == 0, Offset: uint64(r.IntN(3)) << r.IntN(22),
				Up: r.IntN(2) == 0, Length: uint32(r.IntN(9)),
			}
			if e.Op == protocol.RegisterPID {
				e.Peer.PID = lnet.PID(r.IntN(100))
			}
			e.Put(&b)
			if r.IntN(4) == 0 {
				b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
			}
			for range r.IntN(5) {
				if slot, _ := bad.ring.Submissions.Slot(); slot != nil {
					copy(slot, b[:])
					bad.ring.Submissions.Advance()
				}
			}
			bad.ring.Submissions.Publish()
			bad.ring.Submissions.Ring()
		}
		bad.leave()
		u.put(peer, uint64(k), []byte("still here"))
		good.report(protocol.Entry{Op: protocol.Sent, Handle: good.order(protocol.Send).Handle})
		u.await(t, fmt.Sprintf("sent %d: ok", k))
	}
}

// A proxy that goes on reporting after it was cut off is detached nevertheless.
func TestReportsAfterTheEnd(t *testing.T) {
	s := newSite(t, uplnd.Config{Quarantine: -1})
	u := openNI(t, s, self)
	f := attach(t, s, self)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var b [protocol.EntrySize]byte
		e := protocol.Entry{Op: protocol.Link, Up: true}
		e.Put(&b)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if slot, _ := f.ring.Submissions.Slot(); slot != nil {
				copy(slot, b[:])
				f.ring.Submissions.Advance()
				f.ring.Submissions.Publish()
				f.ring.Submissions.Ring()
			}
		}
	}()
	u.await(t, "link up")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := u.iface.Close(ctx); err != nil {
		t.Error(err)
	}
	close(stop)
	<-stopped
}

// lnetd handles the reports of a proxy that has left.
func TestReportsBeforeTheEnd(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	for range 10 {
		f := attach(t, s, self)
		f.ready(lnet.PIDLustre)
		u.await(t, "link up")
		const messages = 100
		var sent []protocol.Entry
		for k := range uint64(messages) {
			u.put(peer, k, nil)
			sent = append(sent, protocol.Entry{Op: protocol.Sent, Handle: f.order(protocol.Send).Handle})
		}
		f.report(sent...)
		f.leave()
		for k := range messages {
			u.await(t, fmt.Sprintf("sent %d: ok", k))
		}
		u.await(t, "link down")
	}
}

// A peer that does not answer cannot use up all buffers: messages to another peer are passed on.
func TestSilentPeer(t *testing.T) {
	s := newSite(t, uplnd.Config{AreaSize: 8 << 20})
	u := openNI(t, s, self)
	f := attach(t, s, self)
	f.ready(lnet.PIDLustre)
	u.await(t, "link up")
	for k := range uint64(8) {
		u.put(peer, k, make([]byte, lnet.MTU))
	}
	f.order(protocol.Send)
	f.order(protocol.Send)
	other := lnet.ProcessID{NID: numbered(3), PID: lnet.PIDLustre}
	u.put(other, 9, make([]byte, lnet.MTU))
	if e := f.order(protocol.Send); e.Peer != other {
		t.Errorf("a message to %v", e.Peer)
	}
}

// A peer that another proxy reaches too is not down when a proxy leaves.
//
// UP-8
func TestPeerOfTwoProxies(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	a, b := attach(t, s, self), attach(t, s, self)
	a.ready(lnet.PIDLustre)
	for _, f := range []*fake{a, b} {
		f.report(protocol.Entry{Op: protocol.Arrived, Handle: 1, Peer: peer, Header: header(0)})
		f.order(protocol.Done)
	}
	b.leave()
	u.awaitProxies(1)
	u.mu.Lock()
	for _, e := range u.events {
		if strings.HasPrefix(e, "down") || strings.HasPrefix(e, "lost") {
			t.Error(e)
		}
	}
	u.mu.Unlock()
	a.leave()
	u.await(t, "down 10.0.0.2@tcp: remote error")
}
