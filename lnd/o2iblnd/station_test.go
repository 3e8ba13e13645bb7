package o2iblnd_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// station is a node on the fabric that records its upcalls. Methods that return results wait until the
// bubble is idle.
type station struct {
	quiet
	t    *testing.T
	k    int
	host *fabric.Host
	proc *fabric.Process
	d    *o2iblnd.Driver
	i    lnd.Interface

	looks atomic.Int64 // calls of LNDTimeout; a tick makes one for each connection

	mu   sync.Mutex // guards the rest
	took int
	hold bool
	held []*lnd.Rx
	errs []error
	sent int
	news
}

// news holds the upcalls of a station.
type news struct {
	downs     []lnd.PeerDown
	restarted int
	links     []lnd.LinkState
	stalled   bool // from the last PeerStalled
}

// told waits until the bubble is idle, and returns the upcalls so far.
func (s *station) told() news {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

// holdAll makes arrivals wait for a placement until release is called.
func (s *station) holdAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = true
}

func (s *station) LNDTimeout() time.Duration {
	s.looks.Add(1)
	return 0
}

func (s *station) Arrived(m *lnd.Rx) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold {
		s.held = append(s.held, m)
		return nil
	}
	go s.place(m)
	return nil
}

func (s *station) place(m *lnd.Rx) {
	s.i.Receive(m, lnd.Placement{Memory: memory.Of(make([]byte, m.Header.PayloadLength)), Done: s})
}

func (s *station) Received(_ *lnd.Rx, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.took++
	}
}

func (s *station) Sent(_ *lnd.Tx, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	if err != nil {
		s.errs = append(s.errs, err)
	}
}

func (s *station) PeerDown(d lnd.PeerDown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downs = append(s.downs, d)
}

func (s *station) PeerRestarted(lnet.NID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarted++
}

func (s *station) PeerStalled(_ lnet.NID, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = !since.IsZero()
}

func (s *station) LinkChanged(l lnd.LinkState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
}

// newStation opens node k as a station.
func newStation(t *testing.T, f *fabric.Fabric, k int, edit func(*o2iblnd.Config)) *station {
	t.Helper()
	h := f.Host(fmt.Sprint("host", k))
	if _, found := hosts.LoadOrStore(h, true); !found {
		h = f.Host(fmt.Sprint("host", k), address(k))
	}
	s := &station{t: t, k: k, host: h, proc: h.Open()}
	c := config(t, s.proc)
	c.Timeout = 10 * time.Second
	if edit != nil {
		edit(&c)
	}
	var err error
	if s.d, err = o2iblnd.New(c); err != nil {
		t.Fatal(err)
	}
	if s.i, err = s.d.Open(t.Context(), lnd.Config{Net: o2ib, NID: nidOf(k), Upper: s, Tunables: lnd.Tunables{PeerTimeout: -1}}); err != nil {
		t.Fatal(err)
	}
	return s
}

var hosts sync.Map // the hosts that have their device

func (s *station) close() {
	s.t.Helper()
	s.release()
	if err := s.i.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
	if err := s.d.Close(); err != nil {
		s.t.Error(err)
	}
	if err := s.proc.Close(); err != nil {
		s.t.Error(err)
	}
}

// release places the arrivals that were held.
func (s *station) release() {
	s.mu.Lock()
	held := s.held
	s.held, s.hold = nil, false
	s.mu.Unlock()
	for _, m := range held {
		s.place(m)
	}
}

// send sends n messages of size bytes.
func (s *station) send(to lnet.NID, n, size int) {
	for range n {
		m := &lnd.Tx{
			Header: lnet.Header{
				Type: lnet.MsgPut, Src: s.i.NID(), Dest: to, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre, Handle: lnet.NoHandle,
				PayloadLength: uint32(size),
			},
			To: lnet.ProcessID{NID: to, PID: lnet.PIDLustre}, Payload: memory.Of(make([]byte, size)), Done: s,
		}
		s.i.Send(m)
	}
}

// outcome returns the results of messages that have completed since the last call of outcome.
func (s *station) outcome() (sent int, errs []error) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, errs = s.sent, s.errs
	s.sent, s.errs = 0, nil
	return sent, errs
}

// works checks that messages arrive at another station.
func (s *station) works(to *station) {
	s.t.Helper()
	s.outcome()
	to.mu.Lock()
	to.took = 0
	to.mu.Unlock()
	for range 30 {
		s.send(to.i.NID(), 1, 100)
		s.send(to.i.NID(), 1, 50_000)
		done, failed := 0, 0
		for range 60 {
			sent, errs := s.outcome()
			if done, failed = done+sent, failed+len(errs); done == 2 {
				break
			}
			time.Sleep(time.Second)
		}
		if done == 2 && failed == 0 {
			break
		}
	}
	synctest.Wait()
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.took < 2 {
		s.t.Errorf("no messages get from node %d to node %d", s.k, to.k)
	}
}

// onFabric runs story in a bubble, with a fabric.
func onFabric(t *testing.T, story func(t *testing.T, f *fabric.Fabric)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := fabric.New(fabric.Config{
			Link:   fabric.Link{Latency: 10 * time.Microsecond},
			Report: func(err error) { t.Error(err) },
		})
		defer f.Close()
		story(t, f)
	})
}
