package uplnd_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnd/uplnd/proxy"
	"github.com/lnetd/lnetd/lnet"
)

// scripted is a driver and its interface. Messages arrive as a test decides.
type scripted struct {
	upper lnd.Upper
	nid   lnet.NID
	// within is called by Open.
	within func(s *scripted)
	// sends, if it is set, is called by Send.
	sends  func(m *lnd.Tx)
	opened chan struct{} // closed by Open

	mu      sync.Mutex // guards placed
	changed sync.Cond
	placed  map[*lnd.Rx]lnd.Placement
}

func newScripted(within func(s *scripted)) *scripted {
	s := &scripted{within: within, placed: make(map[*lnd.Rx]lnd.Placement), opened: make(chan struct{})}
	s.changed.L = &s.mu
	return s
}

func (s *scripted) Type() lnet.NetType { return proxied.Type() }
func (s *scripted) Open(_ context.Context, c lnd.Config) (lnd.Interface, error) {
	s.upper, s.nid = c.Upper, c.NID
	if s.within != nil {
		s.within(s)
	}
	close(s.opened)
	return s, nil
}

func (s *scripted) NID() lnet.NID               { return s.nid }
func (s *scripted) Device() string              { return "" }
func (s *scripted) LargeNIDs() bool             { return true }
func (s *scripted) Tunables() lnd.Tunables      { return lnd.Tunables{} }
func (s *scripted) Timeout() time.Duration      { return 0 }
func (s *scripted) Options() lnd.Values         { return nil }
func (s *scripted) Link() lnd.LinkState         { return lnd.LinkUp }
func (s *scripted) Disconnect(lnet.NID)         {}
func (s *scripted) Refusals() lnd.RefusalCounts { return lnd.RefusalCounts{} }
func (s *scripted) LinkBack(lnet.NID)           {}
func (s *scripted) Probe(lnet.NID) bool         { return false }
func (s *scripted) Counters() []lnd.Counter     { return nil }
func (s *scripted) Close(context.Context) error { return nil }

func (s *scripted) Recall(lnet.NID, func(m *lnd.Tx) bool) {}

func (s *scripted) Send(m *lnd.Tx) {
	if s.sends != nil {
		s.sends(m)
	}
	m.Done.Sent(m, nil)
}

// Receive places a message, whose payload comes at once.
func (s *scripted) Receive(m *lnd.Rx, p lnd.Placement) {
	s.mu.Lock()
	s.placed[m] = p
	s.changed.Broadcast()
	s.mu.Unlock()
	if p.Done != nil {
		p.Done.Received(m, nil)
	}
}

// arrive makes a message of n bytes arrive.
func (s *scripted) arrive(t *testing.T, from lnet.NID, n uint32) *lnd.Rx {
	t.Helper()
	h := header(n)
	h.Src = from
	m := &lnd.Rx{Header: h, From: lnet.ProcessID{NID: from, PID: lnet.PIDLustre}}
	if err := s.upper.Arrived(m); err != nil {
		t.Error(err)
	}
	return m
}

// await waits until a message is placed.
func (s *scripted) await(m *lnd.Rx) lnd.Placement {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if p, ok := s.placed[m]; ok {
			return p
		}
		s.changed.Wait()
	}
}

// serveScripted opens an NI with a proxy that has the driver d, and rings of so many entries.
func serveScripted(t *testing.T, d *scripted, hold bool, ahead, entries int) *upper {
	t.Helper()
	u := newUpper()
	u.hold = hold
	s := newSite(t, uplnd.Config{Entries: entries})
	i, err := s.open(t.Context(), lnd.Config{Net: proxied, NID: self, Upper: u}, inProcess(d, ahead))
	if err != nil {
		t.Fatal(err)
	}
	u.opened(i)
	<-d.opened
	t.Cleanup(func() {
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
		s.close(t)
	})
	return u
}

// Messages that arrive, or are withdrawn, before Open has returned are handled afterwards.
func TestArrivalsWithinOpen(t *testing.T) {
	var kept, lost *lnd.Rx
	d := newScripted(func(s *scripted) {
		kept, lost = s.arrive(t, peer.NID, 7), s.arrive(t, numbered(3), 7)
		s.upper.Withdrawn(lost)
	})
	u := serveScripted(t, d, true, 0, 1024)
	u.await(t, "held")
	u.placeHeld()
	u.await(t, "received 7: ok")
	if p := d.await(lost); p.Done != nil {
		t.Error("the withdrawn message was placed")
	}
	d.await(kept)
}

// The library announces as many arrivals as lnetd permits, and the others later. So lnetd does not cut off a proxy
// whose arrivals the node does not place.
func TestManyArrivals(t *testing.T) {
	for name, ahead := range map[string]int{"Header": -1, "Ahead": 0} {
		t.Run(name, func(t *testing.T) {
			d := newScripted(nil)
			u := serveScripted(t, d, true, ahead, 64)
			const messages = 100
			for k := range messages {
				d.arrive(t, numbered(uint32(2+k)), 7)
			}
			for range messages {
				u.await(t, "held")
				u.placeHeld()
				u.await(t, "received 7: ok")
			}
		})
	}
}

// Large payloads that the node does not place leave memory for those that it does.
//
// UP-6, UP-7
func TestLargeArrivalsUnplaced(t *testing.T) {
	d := newScripted(nil)
	u := serveScripted(t, d, true, 0, 1024)
	for k := range 4 {
		for range 8 {
			d.arrive(t, numbered(uint32(2+k)), lnet.MTU)
		}
	}
	u.await(t, "held")
	u.set(&u.hold, false)
	d.await(d.arrive(t, numbered(20), 7))
	u.await(t, "received 7: ok")
}

// A proxy whose PID another one has fails with that reason, and does not wait for one of lnetd.
//
// UP-3, UP-8
func TestBusyPID(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	attach(t, s, self).ready(lnet.PIDLustre)
	u.await(t, "link up")
	err := proxy.Run(t.Context(), proxy.Config{Socket: s.socket, Name: "second", Net: proxied, NID: self, Driver: newScripted(nil)})
	if !errors.Is(err, protocol.CauseBusy.Err("")) || strings.Contains(err.Error(), "connection") {
		t.Error(err)
	}
}

// Given several messages in the ring, then the driver learns of each that another one to the same peer follows.
func TestMoreMessagesFollow(t *testing.T) {
	more, release := make(chan bool, 6), make(chan struct{})
	d := newScripted(nil)
	d.sends = func(m *lnd.Tx) {
		more <- m.More
		<-release
	}
	u := serveScripted(t, d, false, 0, 1024)
	u.put(peer, 0, nil)
	got := []bool{<-more}
	other := lnet.ProcessID{NID: numbered(3), PID: lnet.PIDLustre}
	for k, to := range []lnet.ProcessID{peer, peer, other, other, peer} {
		u.put(to, uint64(k+1), nil)
	}
	close(release)
	for range 5 {
		got = append(got, <-more)
	}
	if d := cmp.Diff([]bool{false, true, false, true, false, false}, got); d != "" {
		t.Error(d)
	}
}

// A message from the NI itself is a protocol error of the driver's peer, and is not reported to lnetd.
func TestForeignPeers(t *testing.T) {
	d := newScripted(nil)
	u := serveScripted(t, d, false, 0, 1024)
	for _, from := range []lnet.NID{self, lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 4), 1)} {
		m := &lnd.Rx{Header: header(0), From: lnet.ProcessID{NID: from, PID: lnet.PIDLustre}}
		if err := d.upper.Arrived(m); err == nil {
			t.Errorf("a message from %s", from)
		}
		d.upper.PeerRestarted(from)
		d.upper.ConnectionsLost(from)
		d.upper.PeerDown(lnd.PeerDown{Peer: from, Err: lnd.ErrTimeout})
		d.upper.PeerStalled(from, time.Now())
	}
	d.arrive(t, peer.NID, 7)
	u.await(t, "received 7: ok")
}
