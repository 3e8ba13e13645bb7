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

// peerGroup is many peers of one node: driver interfaces in this process without nodes, so that the costs of
// a peer are those of the other side.
type peerGroup struct {
	driver   *socklnd.Driver
	members  []*groupPeer
	to       lnet.ProcessID
	payload  memory.Vector
	messages []*groupMessage

	now atomic.Pointer[crowdRun]
}

// groupPeer is one peer.
type groupPeer struct {
	crowd *peerGroup
	iface lnd.Interface
}

// groupMessage is a PUT that is under way or about to be sent. It is sent again when it has left and is
// acknowledged.
type groupMessage struct {
	crowd         *peerGroup
	tx            lnd.Tx
	pendingEvents atomic.Int32 // remaining of its departure and its ACK
}

// crowdRun is a run of n exchanges.
type crowdRun struct {
	among        int // number of members that take turns
	n            int64
	begun, ended atomic.Int64
	done         chan struct{}
	once         sync.Once
	err          error // valid when done is closed
}

func (r *crowdRun) end(err error) {
	r.once.Do(func() {
		r.err = err
		close(r.done)
	})
}

// crowdAddress returns the address of a member on the loopback device.
func crowdAddress(k int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1, byte(k / 250), byte(1 + k%250)})
}

// staticNetwork is the network of the host, but it never reports changes.
type staticNetwork struct{ socklnd.Network }

func (staticNetwork) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// gather creates a group whose members send PUTs of size bytes to the node of a Serve.
func gather(ctx context.Context, c *Config, members, size int) (_ *peerGroup, err error) {
	driver := socklnd.UnprivilegedConfig(c.Port)
	driver.Network, driver.Logger = staticNetwork{socklnd.HostNetwork()}, c.Logger
	d, err := socklnd.New(driver)
	if err != nil {
		return nil, err
	}
	net := lnet.MakeNet(lnet.TypeTCP, 0)
	w := &peerGroup{
		driver: d, to: lnet.ProcessID{NID: lnet.NIDFromIP(net, c.Server), PID: lnet.PIDLustre}, payload: memory.Of(written(size)),
	}
	for k := range members {
		m := &groupPeer{crowd: w}
		m.iface, err = d.Open(ctx, lnd.Config{Net: net, NID: lnet.NIDFromIP(net, crowdAddress(k)), Upper: m})
		if err != nil {
			return nil, errors.Join(err, w.part())
		}
		w.members = append(w.members, m)
	}
	return w, nil
}

// part closes the group.
func (w *peerGroup) part() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	for _, m := range w.members {
		err = errors.Join(err, m.iface.Close(ctx))
	}
	return errors.Join(err, w.driver.Close())
}

// connections returns the number of connections.
func (w *peerGroup) connections() (n int) {
	for _, m := range w.members {
		for _, c := range m.iface.Counters() {
			if c.Name == "connections" {
				n += int(c.Value)
			}
		}
	}
	return n
}

// run makes n exchanges, with inFlight of them under way, by members that take turns. It returns the time
// taken.
func (w *peerGroup) run(ctx context.Context, n, inFlight, among int) (time.Duration, error) {
	for k := len(w.messages); k < inFlight; k++ {
		l := &groupMessage{crowd: w}
		l.tx.Done = l
		w.messages = append(w.messages, l)
	}
	r := &crowdRun{among: among, n: int64(n), done: make(chan struct{})}
	w.now.Store(r)
	defer w.now.Store(nil)
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

// send sends the message again, from the next member.
func (l *groupMessage) send(r *crowdRun, number int) {
	turn := r.begun.Add(1) - 1
	if turn >= r.n {
		return
	}
	w := l.crowd
	from := w.members[int(turn)%r.among].iface
	l.pendingEvents.Store(2)
	l.tx.To, l.tx.Payload = w.to, w.payload
	l.tx.Header = lnet.Header{
		Type: lnet.MsgPut, Src: from.NID(), Dest: w.to.NID, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
		PayloadLength: uint32(w.payload.Length), Portal: portal, MatchBits: putBits, Handle: lnet.Handle{Object: uint64(number)},
	}
	from.Send(&l.tx)
}

// countEvent records that the message has left or has been acknowledged.
func (l *groupMessage) countEvent() {
	r := l.crowd.now.Load()
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
		l.crowd.fail(err)
		return
	}
	l.countEvent()
}

func (w *peerGroup) fail(err error) {
	if r := w.now.Load(); r != nil {
		r.end(err)
	}
}

// Arrived implements lnd.Upper. An ACK completes a letter; other messages are ignored.
func (m *groupPeer) Arrived(rx *lnd.Rx) error {
	typ, number := rx.Header.Type, rx.Header.Handle.Object
	m.iface.Receive(rx, lnd.Placement{})
	if w := m.crowd; typ == lnet.MsgAck && number < uint64(len(w.messages)) {
		w.messages[number].countEvent()
	}
	return nil
}

// PeerDown implements lnd.Upper.
func (m *groupPeer) PeerDown(d lnd.PeerDown) {
	m.crowd.fail(fmt.Errorf("%s is down: %w", d.Peer, d.Err))
}

// The other methods of lnd.Upper have no effect on a peer without a node.

func (m *groupPeer) Withdrawn(*lnd.Rx)               {}
func (m *groupPeer) ConnectionsLost(lnet.NID)        {}
func (m *groupPeer) PeerRestarted(lnet.NID)          {}
func (m *groupPeer) LNDTimeout() time.Duration       { return 0 }
func (m *groupPeer) Vouched(lnet.NID) bool           { return true }
func (m *groupPeer) PeerStalled(lnet.NID, time.Time) {}
func (m *groupPeer) LinkChanged(lnd.LinkState)       {}
