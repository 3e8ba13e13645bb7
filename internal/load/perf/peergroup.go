package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// peerGroup is a group of peers of one node. They are driver interfaces in this process, without nodes,
// so that they cost little here and the costs of a peer in the node's process can be measured.
type peerGroup struct {
	driver   *socklnd.Driver
	members  []*groupPeer
	to       lnet.ProcessID
	payload  memory.Vector
	messages []*groupMessage

	current atomic.Pointer[groupRun]
}

// groupPeer is one peer of a group.
type groupPeer struct {
	bystander
	group *peerGroup
	iface lnd.Interface
}

// groupMessage is a PUT in flight. When the driver has sent it and its ACK has arrived, it is sent
// again.
type groupMessage struct {
	group         *peerGroup
	tx            lnd.Tx
	pendingEvents atomic.Int32 // 2: sent and ACK are outstanding; 0: both have come
}

// groupRun is a run of n exchanges by a group.
type groupRun struct {
	members      int // number of peers that send, in turn
	n            int64
	begun, ended atomic.Int64
	done         chan struct{}
	once         sync.Once
	err          error // valid when done is closed
}

func (r *groupRun) end(err error) {
	r.once.Do(func() {
		r.err = err
		close(r.done)
	})
}

var tcp = lnet.MakeNet(lnet.TypeTCP, 0)

// memberAddress returns the address of peer k of a group, on the loopback device.
func memberAddress(k int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1, byte(k / 250), byte(1 + k%250)})
}

// staticNetwork is the network of the host, except that Watch never reports changes. Otherwise each of
// many interfaces would handle each change.
type staticNetwork struct{ socklnd.Network }

func (staticNetwork) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// newStaticDriver returns a driver for many peers in this process, which do not listen.
func newStaticDriver(c *Config) (*socklnd.Driver, error) {
	driver := socklnd.UnprivilegedConfig(c.Port)
	driver.Network, driver.Logger, driver.Accept = staticNetwork{socklnd.HostNetwork()}, c.Logger, socklnd.AcceptNone
	return socklnd.New(driver)
}

// newPeerGroup creates a group whose members send PUTs of size bytes to the node of Serve. The caller
// must close it.
func newPeerGroup(ctx context.Context, c *Config, members, size int) (_ *peerGroup, err error) {
	d, err := newStaticDriver(c)
	if err != nil {
		return nil, err
	}
	w := &peerGroup{
		driver: d, to: lnet.ProcessID{NID: lnet.NIDFromIP(tcp, c.Server), PID: lnet.PIDLustre}, payload: memory.Of(writtenMemory(size)),
	}
	for k := range members {
		m := &groupPeer{group: w}
		m.iface, err = d.Open(ctx, lnd.Config{Net: tcp, NID: lnet.NIDFromIP(tcp, memberAddress(k)), Upper: m})
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.members = append(w.members, m)
	}
	return w, nil
}

// close closes the group.
func (w *peerGroup) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	for _, m := range w.members {
		err = errors.Join(err, m.iface.Close(ctx))
	}
	return errors.Join(err, w.driver.Close())
}

// connections returns the number of connections of all members.
func (w *peerGroup) connections() (n int) {
	for _, m := range w.members {
		n += connectionsOf(m.iface)
	}
	return n
}

// connectionsOf returns the number of connections of an interface.
func connectionsOf(i lnd.Interface) int {
	for _, c := range i.Counters() {
		if c.Name == "connections" {
			return int(c.Value)
		}
	}
	return 0
}

// run makes n exchanges, by the first members of the group in turn (senders of them), with inFlight exchanges in flight. It
// returns the time taken.
func (w *peerGroup) run(ctx context.Context, n, inFlight, senders int) (time.Duration, error) {
	for k := len(w.messages); k < inFlight; k++ {
		l := &groupMessage{group: w}
		l.tx.Done = l
		w.messages = append(w.messages, l)
	}
	r := &groupRun{members: senders, n: int64(n), done: make(chan struct{})}
	w.current.Store(r)
	defer w.current.Store(nil)
	start := time.Now()
	for k, l := range w.messages[:inFlight] {
		l.send(r, k)
	}
	select {
	case <-r.done:
		return time.Since(start), r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// send sends the message from the member whose turn it is, unless the run has started all its exchanges.
func (l *groupMessage) send(r *groupRun, number int) {
	turn := r.begun.Add(1) - 1
	if turn >= r.n {
		return
	}
	w := l.group
	from := w.members[int(turn)%r.members].iface
	l.pendingEvents.Store(2)
	l.tx.To, l.tx.Payload = w.to, w.payload
	l.tx.Header = lnet.Header{
		Type: lnet.MsgPut, Src: from.NID(), Dest: w.to.NID, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
		PayloadLength: uint32(w.payload.Length), Portal: portal, MatchBits: putBits, Handle: lnet.Handle{Object: uint64(number)},
	}
	from.Send(&l.tx)
}

// countEvent records that the message was sent or that its ACK arrived. After both, it counts the
// exchange and sends the message again.
func (l *groupMessage) countEvent() {
	r := l.group.current.Load()
	if r == nil || l.pendingEvents.Add(-1) > 0 {
		return
	}
	if r.ended.Add(1) == r.n {
		r.end(nil)
		return
	}
	l.send(r, int(l.tx.Header.Handle.Object))
}

// Sent implements lnd.Sender.
func (l *groupMessage) Sent(_ *lnd.Tx, err error) {
	if err != nil {
		l.group.fail(err)
		return
	}
	l.countEvent()
}

func (w *peerGroup) fail(err error) {
	if r := w.current.Load(); r != nil {
		r.end(err)
	}
}

// Arrived implements lnd.Upper. It counts the ACK of a message, and ignores all other messages.
func (m *groupPeer) Arrived(rx *lnd.Rx) error {
	typ, number := rx.Header.Type, rx.Header.Handle.Object
	m.iface.Receive(rx, lnd.Placement{})
	if w := m.group; typ == lnet.MsgAck && number < uint64(len(w.messages)) {
		w.messages[number].countEvent()
	}
	return nil
}

// PeerDown implements lnd.Upper.
func (m *groupPeer) PeerDown(d lnd.PeerDown) {
	m.group.fail(fmt.Errorf("%s is down: %w", d.Peer, d.Err))
}

// bystander has the methods of lnd.Upper that have no effect on a peer without a node.
type bystander struct{}

func (bystander) Withdrawn(*lnd.Rx)               {}
func (bystander) ConnectionsLost(lnet.NID)        {}
func (bystander) PeerRestarted(lnet.NID)          {}
func (bystander) LNDTimeout() time.Duration       { return 0 }
func (bystander) Vouched(lnet.NID) bool           { return true }
func (bystander) PeerStalled(lnet.NID, time.Time) {}
func (bystander) LinkChanged(lnd.LinkState)       {}
