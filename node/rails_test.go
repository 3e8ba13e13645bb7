package node_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// rails is two nodes with several NIs on one net. Each knows the other's NIDs. Messages
// from a are recorded, and fail as the test requires.
type rails struct {
	*fabric
	a, b   *node.Node
	na, nb []lnet.NID

	mu    sync.Mutex
	begin time.Time
	left  []departure
	fate  func(tx *lnd.Tx) error // error for a message from a; nil if all succeed
}

// departure is a message that a passed to its driver.
type departure struct {
	typ      lnet.MsgType
	from, to lnet.NID
	sink     uint32
	at       time.Duration // since begin
}

// newRails creates nodes with the given numbers of NIs. It is for synctest bubbles.
func newRails(t testing.TB, p node.Parameters, nisA, nisB int) *rails {
	t.Helper()
	return newRailsWith(t, p, lnd.Tunables{}, nisA, nisB)
}

// newRailsWith is newRails with tunables for a's NIs.
func newRailsWith(t testing.TB, p node.Parameters, tunables lnd.Tunables, nisA, nisB int) *rails {
	t.Helper()
	r := &rails{fabric: newFabric(), begin: time.Now()}
	r.a = newNode(t, node.Config{Parameters: &p})
	r.b = newNode(t, node.Config{})
	for k := range nisA {
		r.na = append(r.na, lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a000001+uint32(k)))
		r.addNIWith(t, r.a, lnd.Config{NID: r.na[k], Device: "dev-" + r.na[k].String(), Tunables: tunables})
	}
	for k := range nisB {
		r.nb = append(r.nb, lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a000101+uint32(k)))
		r.addNI(t, r.b, r.nb[k].String())
	}
	configure(t, r.a, r.nb[0], r.nb[1:]...)
	configure(t, r.b, r.na[0], r.na[1:]...)
	r.fail = func(tx *lnd.Tx) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		h := &tx.Header
		for _, nid := range r.na {
			if h.Src != nid {
				continue
			}
			r.left = append(r.left, departure{h.Type, h.Src, tx.To.NID, h.Length, time.Since(r.begin)})
			if r.fate != nil {
				return r.fate(tx)
			}
		}
		return nil
	}
	sink(t, r.b, portals.OpPut|portals.OpGet)
	return r
}

// fails sets the result of a's messages from now on.
func (r *rails) fails(fate func(tx *lnd.Tx) error) {
	r.mu.Lock()
	r.fate = fate
	r.mu.Unlock()
}

// restart restarts the measurement of time.
func (r *rails) restart() {
	r.mu.Lock()
	r.begin = time.Now()
	r.mu.Unlock()
}

// as makes every message fail with a status.
func as(s lnd.Status) func(tx *lnd.Tx) error {
	return func(tx *lnd.Tx) error { return fault(s, tx.To.NID, lnd.ErrDisconnected) }
}

// took returns the messages that a has sent since the last call, when all goroutines are
// idle.
func (r *rails) took() []departure {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.left
	r.left = nil
	return left
}

// put sends one PUT without an ACK from a to b, and returns its event.
func (r *rails) put(t testing.TB, o node.PutOptions) portals.Event {
	t.Helper()
	var e recorder
	h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Unlink: true, Handler: &e})
	o.Portal = 1
	put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, o)
	synctest.Wait()
	events := e.take()
	if len(events) != 1 || events[0].Type != portals.EventSend {
		t.Fatalf("events %+v, want one SEND", events)
	}
	return events[0]
}

// hears makes a receive a PUT from each of b's NIDs.
func (r *rails) hears(t testing.TB) {
	t.Helper()
	sink(t, r.a, portals.OpPut)
	for _, from := range r.nb {
		h := bind(t, r.b, portals.MD{Bytes: make([]byte, 1), Threshold: 1, Unlink: true})
		put(t, r.b, h, lnet.ProcessID{NID: r.na[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1, Source: from})
	}
	synctest.Wait()
}

// healthOf returns the health of a's NIs, and of b's as known by a.
func (r *rails) healthOf() (nis, peers []int) {
	for _, i := range r.a.NIs()[1:] {
		nis = append(nis, i.Health.Value)
	}
	for _, nid := range r.nb {
		for _, p := range peerNIs(r.a) {
			if p.NID == nid {
				peers = append(peers, p.Health.Value)
			}
		}
	}
	return nis, peers
}

// lost returns how much health is missing.
func lost(values []int) int {
	sum := 0
	for _, v := range values {
		sum += 1000 - v
	}
	return sum
}
