package socklnd

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// patience is how long a test waits for an event before it fails. It only ends tests that hang.
const patience = 3 * time.Minute

// testPort is the port of all acceptors in tests. Every node and every peer has its own address.
const testPort = 7988

var tcp = lnet.MakeNet(lnet.TypeTCP, 0)

var addresses atomic.Uint32

// newAddress returns a loopback address that no other test uses. Test processes that run at the
// same time have different ranges.
func newAddress() netip.Addr {
	k := addresses.Add(1)
	return netip.AddrFrom4([4]byte{127, byte(224 + os.Getpid()%31), byte(k >> 8), byte(k)})
}

// await receives from ch, and fails the test after patience.
func await[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("no %s", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
		panic("unreachable")
	}
}

// node is an interface under test, and records its upcalls.
type node struct {
	*Interface
	t      testing.TB
	driver *Driver

	lndTimeout atomic.Int64 // LNet's timeout; 0 for none
	vouched    lnet.NID     // set before a message is sent to it

	arrived   chan *arrival
	withdrawn chan *lnd.Rx
	down      chan lnd.PeerDown
	restarted chan lnet.NID
	lost      chan lnet.NID
	stalls    chan stall
	hook      atomic.Pointer[func(*arrival) error]
	onRestart atomic.Pointer[func(lnet.NID)] // called before restarted receives the NID
}

// onArrival makes f handle arrivals. Arrived returns its result. Without it, arrivals are placed in
// new memory.
func (n *node) onArrival(f func(*arrival) error) { n.hook.Store(&f) }

// arrival is a message that arrived, with its payload once it is complete.
type arrival struct {
	node    *node
	rx      *lnd.Rx
	header  lnet.Header
	from    lnet.ProcessID
	memory  memory.Vector
	payload []byte
	err     error
}

// place places the payload in m.
func (a *arrival) place(m memory.Vector) {
	a.memory = m
	a.node.Receive(a.rx, lnd.Placement{Memory: m, Done: a})
}

// drop discards the message.
func (a *arrival) drop() { a.node.Receive(a.rx, lnd.Placement{}) }

// Received implements lnd.Receiver.
func (a *arrival) Received(_ *lnd.Rx, err error) {
	if a.err = err; err == nil {
		a.payload = make([]byte, a.memory.Length)
		a.memory.CopyTo(a.payload)
	}
	a.node.arrived <- a
}

// start opens an interface on a new address. Its reconnect intervals are short: 20 ms instead of
// ksocklnd's second.
func start(t testing.TB, edit func(*Config)) *node {
	t.Helper()
	c := DefaultConfig()
	c.Network = disguised{HostNetwork()}
	c.AcceptPort, c.AcceptPortBulk = testPort, testPort
	c.MinReconnect, c.MaxReconnect = 20*time.Millisecond, 100*time.Millisecond
	c.ConnsPerPeer = 1
	c.Logger = testenv.Logger(t)
	if edit != nil {
		edit(&c)
	}
	return startAt(t, c, newAddress())
}

func startAt(t testing.TB, c Config, addr netip.Addr) *node {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{
		t: t, driver: d,
		arrived:   make(chan *arrival, 1<<16),
		withdrawn: make(chan *lnd.Rx, 1<<10),
		down:      make(chan lnd.PeerDown, 1<<10),
		restarted: make(chan lnet.NID, 1<<10),
		lost:      make(chan lnet.NID, 1<<10),
		stalls:    make(chan stall, 1<<10),
	}
	i, err := d.Open(context.Background(), lnd.Config{Net: tcp, NID: lnet.NIDFromIP(tcp, addr), Upper: n})
	if err != nil {
		t.Fatal(err)
	}
	n.Interface = i.(*Interface)
	t.Cleanup(n.stop)
	return n
}

// stop closes the interface and the driver. A second call does nothing.
func (n *node) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); errors.Is(err, lnd.ErrClosed) {
		return
	} else if err != nil {
		n.t.Error(err)
	}
	if err := n.driver.Close(); err != nil {
		n.t.Error(err)
	}
}

func (n *node) id() lnet.ProcessID { return lnet.ProcessID{NID: n.NID(), PID: lnet.PIDLustre} }

// Arrived implements lnd.Upper.
func (n *node) Arrived(m *lnd.Rx) error {
	a := &arrival{node: n, rx: m, header: m.Header, from: m.From}
	if f := n.hook.Load(); f != nil {
		return (*f)(a)
	}
	a.place(memory.Of(make([]byte, m.Header.PayloadLength)))
	return nil
}

// Withdrawn implements lnd.Upper.
func (n *node) Withdrawn(m *lnd.Rx) { n.withdrawn <- m }

// PeerDown implements lnd.Upper.
func (n *node) PeerDown(d lnd.PeerDown) {
	select {
	case n.down <- d:
	default: // the channel is full, and no test counts that many
	}
}

// ConnectionsLost implements lnd.Upper.
func (n *node) ConnectionsLost(peer lnet.NID) {
	select {
	case n.lost <- peer:
	default: // the channel is full, and no test counts that many
	}
}

// PeerRestarted implements lnd.Upper.
func (n *node) PeerRestarted(peer lnet.NID) {
	if f := n.onRestart.Load(); f != nil {
		(*f)(peer)
	}
	select {
	case n.restarted <- peer:
	default: // the channel is full, and no test counts that many
	}
}

// LNDTimeout implements lnd.Upper.
func (n *node) LNDTimeout() time.Duration { return time.Duration(n.lndTimeout.Load()) }

// Vouched implements lnd.Upper.
func (n *node) Vouched(peer lnet.NID) bool { return peer == n.vouched }

// PeerStalled implements lnd.Upper.
func (n *node) PeerStalled(peer lnet.NID, since time.Time) {
	select {
	case n.stalls <- stall{peer, since}:
	default: // the channel is full, and no test counts that many
	}
}

// stall records a call of PeerStalled.
type stall struct {
	peer  lnet.NID
	since time.Time
}

// toldOfStalls returns the calls of PeerStalled since the last call of toldOfStalls.
func (n *node) toldOfStalls() (all []stall) {
	for {
		select {
		case s := <-n.stalls:
			all = append(all, s)
		default:
			return all
		}
	}
}

// LinkChanged implements lnd.Upper.
func (n *node) LinkChanged(lnd.LinkState) {}

// arrival waits for a message that arrived completely.
func (n *node) arrival() *arrival {
	n.t.Helper()
	a := await(n.t, n.arrived, "arrival")
	if a.err != nil {
		n.t.Fatalf("arrival failed: %v", a.err)
	}
	return a
}

// sending is a message that is being sent.
type sending struct {
	t    testing.TB
	tx   lnd.Tx
	sent chan error
}

// Sent implements lnd.Sender.
func (s *sending) Sent(_ *lnd.Tx, err error) { s.sent <- err }

// put sends a PUT of nbytes bytes.
func (n *node) put(to lnet.ProcessID, nbytes int) *sending {
	return n.putWith(n.NID(), to, pattern(nbytes))
}

func (n *node) putWith(src lnet.NID, to lnet.ProcessID, payload []byte) *sending {
	s := &sending{t: n.t, sent: make(chan error, 2)}
	s.tx = lnd.Tx{
		Header:  putHeader(src, to.NID, len(payload)),
		To:      to,
		Payload: memory.Of(payload),
		Done:    s,
	}
	n.Send(&s.tx)
	return s
}

func putHeader(src, dest lnet.NID, nbytes int) lnet.Header {
	return lnet.Header{
		Type: lnet.MsgPut, Src: src, Dest: dest, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
		PayloadLength: uint32(nbytes), Handle: lnet.NoHandle, MatchBits: 0x1234, Portal: 26,
	}
}

// pattern returns n bytes. Neighbouring parts of it differ.
func pattern(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(k ^ k>>8 ^ k>>16)
	}
	return b
}

// done waits until the message has been sent.
func (s *sending) done() {
	s.t.Helper()
	if err := await(s.t, s.sent, "completion"); err != nil {
		s.t.Fatalf("send: %v", err)
	}
}

// fails waits until the message fails, and checks its status.
func (s *sending) fails(want lnd.Status) error {
	s.t.Helper()
	err := await(s.t, s.sent, "completion")
	if got := lnd.StatusOf(err); err == nil || got != want {
		s.t.Errorf("the message was completed with status %q, want %q: %v", got, want, err)
	}
	return err
}

// counter returns the value of a counter.
func (n *node) counter(name string) uint64 {
	n.t.Helper()
	for _, c := range n.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	n.t.Fatalf("no counter %s", name)
	return 0
}
