package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

// rumour is a node, a, and what it knows about a peer with two NIDs, b. While b's first
// NID is down, only PUTs of b pass it, and while b is mute, it does not push.
type rumour struct {
	a, b       *node.Node
	first      *port // of b
	to         lnet.NID
	down, mute atomic.Bool
}

// newRumour creates two nodes that have discovered each other. It is for synctest
// bubbles.
func newRumour(t *testing.T) *rumour {
	t.Helper()
	p := node.DefaultParameters()
	f := newFabric()
	r := &rumour{a: newNode(t, node.Config{Parameters: &p}), b: newNode(t, node.Config{Parameters: &p})}
	r.to = f.addNI(t, r.a, "10.0.0.1@tcp").nid
	r.first = f.addNI(t, r.b, "10.0.0.11@tcp")
	f.addNI(t, r.b, "10.0.0.12@tcp")
	sink(t, r.a, portals.OpPut)
	if _, err := r.a.Discover(context.Background(), r.first.nid); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	f.failBy(func(tx *lnd.Tx) error {
		h := tx.Header
		pushes := h.Type == lnet.MsgPut && h.Portal == lnet.ReservedPortal
		late := h.Type == lnet.MsgPut && h.Src == r.first.nid && !pushes
		if r.down.Load() && !late && (h.Src == r.first.nid || tx.To.NID == r.first.nid) || r.mute.Load() && pushes {
			return fault(lnd.StatusNetworkTimeout, tx.To.NID, lnd.ErrTimeout)
		}
		return nil
	})
	return r
}

// cut takes b's first link down, and a is notified.
func (r *rumour) cut(t *testing.T) {
	t.Helper()
	r.down.Store(true)
	r.first.setLink(lnd.LinkDown)
	r.want(t, "after the cut", selection.ReportedDown)
}

// plug brings the link up again, and a is not notified.
func (r *rumour) plug() {
	r.mute.Store(true)
	r.down.Store(false)
	r.first.setLink(lnd.LinkUp)
}

// reads makes a read a message that b has sent from its first NID, whatever has happened
// to the NID since.
func (r *rumour) reads(t *testing.T) {
	t.Helper()
	h := bind(t, r.b, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Unlink: true})
	put(t, r.b, h, lnet.ProcessID{NID: r.to, PID: lnet.PIDLustre}, node.PutOptions{Portal: 1, Source: r.first.nid})
}

func (r *rumour) want(t *testing.T, when string, want selection.Trouble) {
	t.Helper()
	synctest.Wait()
	for _, p := range peerNIs(r.a) {
		if got := p.Trouble.Trouble; p.NID == r.first.nid && got != want {
			t.Errorf("%s: trouble %v, want %v", when, got, want)
		}
	}
}

// Given a NID that its own node has reported as down, when a message is read that was
// sent from it before, then the report remains valid, because it would not be repeated.
// It remains valid until a message arrives that must have been sent later. Then the NID
// counts as up even without a push, because there may be no report that it is up again.
func TestWhatWasSentBeforeTheNewsIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRumour(t)
		r.cut(t)
		r.reads(t)
		r.want(t, "after a message that was late", selection.ReportedDown)
		time.Sleep(40 * time.Second)
		r.reads(t)
		r.want(t, "after one that was very late", selection.ReportedDown)
		time.Sleep(11 * time.Second) // the timeout in effect is 50 s
		r.reads(t)
		r.want(t, "after one that cannot have been under way for so long", selection.NoTrouble)
	})
}

// The same applies to a report that repeats an earlier one: the NID may have been up in
// between, and messages sent then may be late.
func TestNewsThatIsToldAgainIsNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRumour(t)
		r.cut(t)
		time.Sleep(time.Minute)
		if _, err := r.a.Discover(context.Background(), r.first.nid); err != nil {
			t.Fatal(err)
		}
		r.reads(t)
		r.want(t, "after a message that was late", selection.ReportedDown)
	})
}

// Given a NID that its own node has reported as down, when it answers a ping that was
// sent after the report, then it is up, however recent the report is.
func TestAnAnswerIsNewerThanTheNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRumour(t)
		r.cut(t)
		time.Sleep(5 * time.Second)
		r.plug()
		time.Sleep(15 * time.Second)
		r.want(t, "after a ping that is answered", selection.NoTrouble)
	})
}

// An answer to a ping that was sent before the report does not mark it as up.
func TestAnAnswerToAnEarlierPingIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRumour(t)
		addFault(t, r.a, faults.Rule{Kind: faults.Delay, Rate: 1, Latency: 30 * time.Second, Messages: faults.Reply, Source: faults.Only(r.first.nid)})
		if err := r.a.Admin().SetPeerHealth(r.first.nid, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		r.cut(t)
		time.Sleep(20 * time.Second)
		r.want(t, "after the answer", selection.ReportedDown)
	})
}
