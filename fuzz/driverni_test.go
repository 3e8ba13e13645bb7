package fuzz

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// driverMessage is a message that a driverNI has sent, and the number of its completions.
type driverMessage struct {
	tx lnd.Tx
	ni *driverNI

	ends int // ni.mu guards it
}

// driverNI is one life of an NI of a driver without a node. It answers like a node: it acknowledges PUTs
// and sends a REPLY to each GET. It keeps messages for lazyPortal until that mode is changed.
type driverNI struct {
	nid    lnet.NID
	opened chan struct{} // closed when iface is set
	iface  lnd.Interface

	mu       sync.Mutex // guards the rest
	lazy     bool
	held     []*lnd.Rx
	messages []*driverMessage
}

// driverKeeps is how many bytes of a payload a driverNI keeps, and sends in a reply.
const driverKeeps = 4096

// driverPayload is the payload of all messages of driverNIs.
var driverPayload [1 << 20]byte

func openDriverNI(t *testing.T, d lnd.Driver, nid lnet.NID) *driverNI {
	t.Helper()
	n := &driverNI{nid: nid, opened: make(chan struct{})}
	i, err := d.Open(context.Background(), lnd.Config{NID: nid, Upper: n, Tunables: lnd.Tunables{PeerTimeout: -1}})
	if err != nil {
		t.Fatal(err)
	}
	n.iface = i
	close(n.opened)
	return n
}

// closeAndCheck closes the NI, and checks that each of its messages has been completed once by then.
func (n *driverNI) closeAndCheck(t *testing.T) {
	t.Helper()
	if err := n.iface.Close(context.Background()); err != nil {
		t.Error(err)
	}
	n.setLazy(2)
	n.check(t)
}

// check checks that each message was completed once, and that no arrival is left.
func (n *driverNI) check(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, m := range n.messages {
		if m.ends != 1 {
			t.Errorf("message %d, %v: %d ends", k, m.tx.Header.Type, m.ends)
		}
	}
	if len(n.held) > 0 {
		t.Errorf("%d arrivals are held", len(n.held))
	}
}

// awaitQuiet waits until no peer, no connection and no message is left.
func (n *driverNI) awaitQuiet() {
	for waited := time.Duration(0); waited < longEnough && !n.isQuiet(); waited += time.Second {
		time.Sleep(time.Second)
	}
}

func (n *driverNI) isQuiet() bool {
	synctest.Wait()
	for _, c := range n.iface.Counters() {
		if (c.Name == "peers" || c.Name == "connections" || c.Name == "pending_messages") && c.Value > 0 {
			return false
		}
	}
	return true
}

func (n *driverNI) send(to lnet.ProcessID, h lnet.Header) {
	h.Src, h.SrcPID = n.nid, lnet.PIDLustre
	m := &driverMessage{ni: n}
	m.tx = lnd.Tx{Header: h, To: to, Payload: memory.Of(driverPayload[:h.PayloadLength]), Done: m}
	if h.Type == lnet.MsgGet {
		m.tx.Sink = memory.Of(make([]byte, h.Length))
	}
	n.mu.Lock()
	n.messages = append(n.messages, m)
	n.mu.Unlock()
	n.iface.Send(&m.tx)
}

// Sent implements lnd.Sender.
func (m *driverMessage) Sent(*lnd.Tx, error) {
	m.ni.mu.Lock()
	defer m.ni.mu.Unlock()
	m.ends++
}

var errElsewhere = errors.New("for another node")

// Arrived implements lnd.Upper.
func (n *driverNI) Arrived(m *lnd.Rx) error {
	<-n.opened
	h := &m.Header
	if err := h.Validate(); err != nil {
		return err
	}
	if h.Dest != n.nid {
		return errElsewhere
	}
	n.mu.Lock()
	hold := n.lazy && h.Type == lnet.MsgPut && h.Portal == lazyPortal
	if hold {
		n.held = append(n.held, m)
	}
	n.mu.Unlock()
	if !hold {
		n.place(m)
	}
	return nil
}

func (n *driverNI) place(m *lnd.Rx) {
	p := lnd.Placement{Done: n}
	if m.RDMA && m.Header.Type == lnet.MsgGet {
		p.Reply = memory.Of(driverPayload[:min(driverKeeps, m.Header.Length)])
	} else {
		p.Memory = memory.Of(make([]byte, min(driverKeeps, m.Header.PayloadLength)))
	}
	n.iface.Receive(m, p)
}

// Received implements lnd.Receiver.
func (n *driverNI) Received(m *lnd.Rx, err error) {
	h := &m.Header
	answer := lnet.Header{Dest: h.Src, DestPID: h.SrcPID, Handle: h.Handle}
	switch {
	case err != nil:
		return
	case h.Type == lnet.MsgPut:
		answer.Type, answer.Length, answer.MatchBits = lnet.MsgAck, h.PayloadLength, h.MatchBits
	case h.Type == lnet.MsgGet && !m.RDMA:
		answer.Type, answer.PayloadLength = lnet.MsgReply, min(h.Length, driverKeeps)
	default:
		return
	}
	n.send(m.From, answer)
}

// Withdrawn implements lnd.Upper.
func (n *driverNI) Withdrawn(m *lnd.Rx) {
	n.mu.Lock()
	k := slices.Index(n.held, m)
	if k >= 0 {
		n.held = slices.Delete(n.held, k, k+1)
	}
	n.mu.Unlock()
	if k >= 0 {
		n.iface.Receive(m, lnd.Placement{})
	}
}

func (n *driverNI) setLazy(b byte) {
	n.mu.Lock()
	n.lazy = b&3 < 2
	held := n.held
	n.held = nil
	n.mu.Unlock()
	for _, m := range held {
		if b&3 == 2 {
			n.iface.Receive(m, lnd.Placement{})
		} else {
			n.place(m)
		}
	}
}

// PeerDown implements lnd.Upper.
func (*driverNI) PeerDown(lnd.PeerDown) {}

// ConnectionsLost implements lnd.Upper.
func (*driverNI) ConnectionsLost(lnet.NID) {}

// PeerRestarted implements lnd.Upper.
func (*driverNI) PeerRestarted(lnet.NID) {}

// LNDTimeout implements lnd.Upper.
func (*driverNI) LNDTimeout() time.Duration { return 0 }

// Vouched implements lnd.Upper.
func (*driverNI) Vouched(lnet.NID) bool { return false }

// PeerStalled implements lnd.Upper.
func (*driverNI) PeerStalled(lnet.NID, time.Time) {}

// LinkChanged implements lnd.Upper.
func (*driverNI) LinkChanged(lnd.LinkState) {}
