package udplnd

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Type is the network type of this driver's nets. Lustre does not use this number.
const Type lnet.NetType = 200

const (
	fragmentSize = 8192                  // bytes of payload in a datagram
	maxPeers     = 1024                  // maximum number of peers in the table; further strangers cannot call
	tick         = 50 * time.Millisecond // interval at which unacknowledged datagrams are repeated
	stallAfter   = 2 * time.Second       // silence after which a peer is stalled, and after which Probe ends the link

	// Kinds of datagrams. The first 3 bytes distinguish them from other protocols.
	hello  = 0x4c4e4400 // requests a link; on an open link, requests an ack
	reset  = 0x4c4e4401 // the sender does not have the link
	header = 0x4c4e4402 // the header of a message
	data   = 0x4c4e4403 // the next fragment of its payload
	ack    = 0x4c4e4404 // acknowledges headers and data
)

// prefix is the beginning of every datagram, in big-endian order. The header of a message, or a fragment of
// its payload, may follow.
type prefix struct {
	Kind        uint32
	From, To    uint64 // IDs of the link at the sender and at the receiver; 0 if the sender does not know it
	Incarnation uint64 // incarnation of the sender
	Number      uint64 // number of this header or data; in an ack, the number that the sender expects next
}

// Driver implements lnd.Driver.
type Driver struct {
	Port   int                                           // UDP port of all nodes
	Listen func(at *net.UDPAddr) (net.PacketConn, error) // opens a socket, such as UDP
}

// UDP opens a UDP socket. A write to it blocks only briefly.
func UDP(at *net.UDPAddr) (net.PacketConn, error) { return net.ListenUDP("udp4", at) }

// Type implements lnd.Driver.
func (d *Driver) Type() lnet.NetType { return Type }

// Open implements lnd.Driver. Config.NID must be set.
func (d *Driver) Open(_ context.Context, c lnd.Config) (lnd.Interface, error) {
	if err := errors.Join(c.Resolve(), lnd.Fields[ni](nil).SetAll(nil, c.Options)); err != nil { // the driver has no tunables
		return nil, failure("open", c.NID, lnd.StatusLocalError, err)
	}
	socket, err := d.Listen(d.address(c.NID))
	if err != nil {
		err = &lnd.ListenError{Addr: d.address(c.NID).AddrPort(), Err: err}
		return nil, failure("open", c.NID, lnd.StatusLocalError, err)
	}
	c.Tunables = c.Tunables.Or(lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 256})
	i := &ni{driver: d, config: c, socket: socket, incarnation: rand.Uint64(), peers: map[lnet.NID]*peer{}}
	i.do(func() { i.timer = time.AfterFunc(tick, func() { i.do(i.watch) }) })
	i.reader.Go(i.read)
	return i, nil
}

// address returns the UDP address of a node. The number in its NID is the IPv4 address.
func (d *Driver) address(nid lnet.NID) *net.UDPAddr {
	return &net.UDPAddr{IP: binary.BigEndian.AppendUint32(nil, nid.Number()), Port: d.Port}
}

func failure(op string, peer lnet.NID, s lnd.Status, err error) error {
	return &lnd.Error{Driver: "udplnd", Op: op, Peer: peer, Status: s, Err: err}
}

// ni implements lnd.Interface.
type ni struct {
	driver      *Driver
	config      lnd.Config
	socket      net.PacketConn
	incarnation uint64
	refusals    peering.Refusals
	open        sync.Map // NIDs of the peers with open links
	closing     atomic.Bool
	reader      sync.WaitGroup
	timer       *time.Timer

	mu    sync.Mutex // guards tasks and busy
	tasks []func()
	busy  bool // a goroutine is running the tasks

	closed bool // only tasks access this field, peers, and all that peers refer to
	peers  map[lnet.NID]*peer
}

func (i *ni) NID() lnet.NID               { return i.config.NID }
func (i *ni) Device() string              { return i.config.Device }
func (i *ni) LargeNIDs() bool             { return true }
func (i *ni) Tunables() lnd.Tunables      { return i.config.Tunables }
func (i *ni) Timeout() time.Duration      { return cmp.Or(i.config.Upper.LNDTimeout(), 50*time.Second) }
func (i *ni) Options() lnd.Values         { return nil }
func (i *ni) Link() lnd.LinkState         { return lnd.LinkUp }
func (i *ni) Refusals() lnd.RefusalCounts { return i.refusals.Counts() }
func (i *ni) Counters() []lnd.Counter     { return nil }
func (i *ni) LinkBack(nid lnet.NID)       { i.do(func() { i.peer(nid).since = time.Now() }) }
func (i *ni) Send(tx *lnd.Tx)             { i.do(func() { i.peer(tx.To.NID).send(tx) }) }

func (i *ni) Receive(rx *lnd.Rx, place lnd.Placement) {
	a := rx.Driver.(*arrival)
	a.place.Store(&place)
	i.do(a.placed)
}

func (i *ni) Disconnect(nid lnet.NID) {
	i.open.Delete(nid)
	i.do(func() { i.peer(nid).end(lnd.StatusLocalError, lnd.StatusLocalAborted, lnd.ErrDisconnected) })
}

func (i *ni) Recall(nid lnet.NID, match func(m *lnd.Tx) bool) {
	i.do(func() {
		for _, p := range i.peers {
			p.out = slices.DeleteFunc(p.out, func(tx *lnd.Tx) bool {
				if started := p.open && tx == p.out[0]; started || p.nid != cmp.Or(nid, p.nid) || !match(tx) {
					return false
				}
				p.fail(tx, lnd.StatusLocalInterrupt, lnd.ErrRecalled)
				return true
			})
		}
	})
}

func (i *ni) Probe(nid lnet.NID) bool {
	i.do(func() {
		if p := i.peer(nid); p.open {
			p.doubted, p.since = true, time.Now()
			p.write(hello, 0, memory.Vector{})
		}
	})
	_, open := i.open.Load(nid)
	return open
}

func (i *ni) Close(ctx context.Context) (err error) {
	if i.closing.Swap(true) {
		return lnd.ErrClosed
	}
	ended := make(chan struct{})
	i.do(func() {
		i.closed = true
		for _, p := range i.peers {
			p.end(lnd.StatusLocalError, lnd.StatusLocalAborted, lnd.ErrClosed)
		}
		i.do(func() { close(ended) }) // runs after the tasks that the node has caused in these calls
	})
	select {
	case <-ended:
		defer i.reader.Wait()
	case <-ctx.Done():
		err = errors.Join(lnd.ErrTimeout, context.Cause(ctx))
	}
	i.timer.Stop()
	return errors.Join(err, i.socket.Close()) // makes read return
}

// do runs task f. If another goroutine is running tasks, that goroutine runs f as well, later; otherwise do
// runs f and all tasks that are passed to do while f runs. So tasks run one after the other, a task never
// waits for another one, and no lock is held while the driver calls the node.
func (i *ni) do(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.tasks = append(i.tasks, f); !i.busy && len(i.tasks) > 0; i.busy = false {
		f, i.tasks, i.busy = i.tasks[0], i.tasks[1:], true
		i.mu.Unlock()
		f()
		i.mu.Lock()
	}
}

// read reads datagrams until the socket is closed. It reads the next datagram when the task that handles the
// previous one has ended.
func (i *ni) read() {
	b, handled := make([]byte, 1<<16), make(chan struct{}, 1)
	for {
		n, from, err := i.socket.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			i.do(func() { i.handle(b[:n], from.(*net.UDPAddr)); handled <- struct{}{} })
			<-handled
		}
	}
}

// watch calls peer.watch for all peers. The timer calls it every tick.
func (i *ni) watch() {
	for _, p := range i.peers {
		p.watch(time.Now(), i.Timeout())
	}
	if !i.closed {
		i.timer.Reset(tick)
	}
}

// peer is another node. It remains in the table when it has no link, unless the table becomes too full.
type peer struct {
	i              *ni
	nid            lnet.NID
	incarnations   peering.Incarnations
	heard, stalled time.Time // time of the last datagram from the peer; beginning of the current stall, or zero
	reported       int       // length of out when the stall was last reported
	out            []*lnd.Tx
	link           // zero if there is no link
}

// link is this node's end of a link.
type link struct {
	local, remote    uint64    // IDs of the link at this node and at the peer
	open, doubted    bool      // the peer knows the local ID; Probe was called, and nothing has arrived since
	since            time.Time // when a datagram last arrived or, if later, when messages began to wait
	number, expected uint64    // number of the next datagram to send, and of the next to receive
	offset           int       // offset in the payload of out[0]; negative until the header is acknowledged
	in               *arrival
}

// peer returns the peer with the given NID. If the peer is not in the table, it returns a new one, which
// begin adds to the table.
func (i *ni) peer(nid lnet.NID) *peer { return cmp.Or(i.peers[nid], &peer{i: i, nid: nid}) }

// begin creates a link to the peer, unless there is one.
func (p *peer) begin() {
	if p.local == 0 {
		p.i.peers[p.nid] = p
		p.link = link{local: rand.Uint64(), since: time.Now(), offset: -fragmentSize}
	}
}

// write sends a datagram on the link. It may be lost.
func (p *peer) write(kind uint32, number uint64, payload memory.Vector) {
	b := make([]byte, binary.Size(prefix{})+payload.Length)
	n, _ := binary.Encode(b, binary.BigEndian, prefix{kind, p.local, p.remote, p.i.incarnation, number})
	payload.CopyTo(b[n:])
	_, _ = p.i.socket.WriteTo(b, p.i.driver.address(p.nid))
}

func (p *peer) fail(tx *lnd.Tx, s lnd.Status, err error) {
	tx.Done.Sent(tx, failure("send", p.nid, s, err))
}

// send queues a message. It puts an urgent message before the others, but not before the first one if the
// link is open, because a part of that may have been sent.
func (p *peer) send(tx *lnd.Tx) {
	if p.i.closed {
		p.fail(tx, lnd.StatusLocalAborted, lnd.ErrClosed)
		return
	}
	p.begin()
	k := len(p.out)
	for tx.Urgent && k > 0 && !p.out[k-1].Urgent && (k > 1 || !p.open) {
		k--
	}
	if p.out = slices.Insert(p.out, k, tx); len(p.out) == 1 {
		p.since = time.Now()
		p.next()
	}
}

// next sends the datagram that the peer must acknowledge next: a hello, or a part of the first message.
func (p *peer) next() {
	switch {
	case len(p.out) == 0:
	case !p.open:
		p.write(hello, 0, memory.Vector{})
	case p.offset < 0:
		p.write(header, p.number, memory.Of(p.out[0].Header.AppendNID16(nil)))
	default:
		p.write(data, p.number, p.out[0].Payload.Slice(p.offset, min(fragmentSize, p.out[0].Payload.Length-p.offset)))
	}
}

// acked sends the next datagram if the peer has acknowledged the current one, which means that it expects
// number next. It completes the message if the current one was its last.
func (p *peer) acked(number uint64) {
	if len(p.out) == 0 || number != p.number+1 {
		return
	}
	p.number++
	if p.offset += fragmentSize; p.offset >= p.out[0].Payload.Length {
		tx := p.out[0]
		p.out, p.offset = p.out[1:], -fragmentSize
		tx.Done.Sent(tx, nil)
	}
	p.next()
}

// handle processes a datagram. It belongs to a link of this node, or is a call that requests a link, or
// belongs to a link that does not exist; then the sender gets a reset.
func (i *ni) handle(b []byte, from *net.UDPAddr) {
	var d prefix
	n, err := binary.Decode(b, binary.BigEndian, &d)
	p := i.peer(lnet.NIDFromIP(i.config.Net, from.AddrPort().Addr().Unmap()))
	calls := d.Kind == hello && d.To == 0
	switch {
	case i.closed, err != nil, d.Kind < hello, d.Kind > ack, from.Port != i.driver.Port:
	case p.local != 0 && d.To == p.local && (p.remote == 0 || d.From == p.remote):
		p.remote = d.From
		p.receive(d, b[n:])
	case calls && p.local == 0 && len(i.peers) >= maxPeers:
		i.refusals.Add(lnd.RefusedMany)
	case calls:
		if p.begin(); !p.open {
			p.remote = d.From
		}
		p.write(hello, 0, memory.Vector{}) // if the peer has lost an open link, it answers with a reset
	case d.Kind != reset:
		(&peer{i: i, nid: p.nid, link: link{local: d.To, remote: d.From}}).write(reset, 0, memory.Vector{})
	}
}

// receive processes a datagram that belongs to the link.
func (p *peer) receive(d prefix, b []byte) {
	a := p.in
	switch {
	case d.Kind == reset && !p.open:
		p.remote = 0
		return
	case d.Kind == reset:
		p.reportRestart(p.incarnations.Observe(d.Incarnation))
		p.end(lnd.StatusNetworkTimeout, lnd.StatusRemoteDropped, lnd.ErrDisconnected)
		return
	case !p.open:
		p.open = true
		p.i.open.Store(p.nid, nil)
		p.reportRestart(p.incarnations.Observe(d.Incarnation))
		p.next()
	}
	p.heard, p.since, p.doubted = time.Now(), time.Now(), false
	p.endStall()
	switch {
	case d.Kind == ack:
		p.acked(d.Number)
		return
	case d.Kind == hello, d.Number != p.expected, d.Kind == header && a != nil && !a.taken: // nothing new: repeat the ack
	case d.Kind == header && a == nil && p.arrive(b):
	case d.Kind == data && a != nil && a.taken && a.done+len(b) <= int(a.Header.PayloadLength):
		a.add(b)
	default:
		p.end(lnd.StatusRemoteError, lnd.StatusRemoteDropped, lnd.ErrProtocol)
		return
	}
	p.write(ack, p.expected, memory.Vector{})
}

// reportRestart reports to the node that the peer has restarted, if news is set.
func (p *peer) reportRestart(news bool) {
	if news {
		p.i.config.Upper.PeerRestarted(p.nid)
	}
}

// endStall reports to the node that a stall has ended, if there was one.
func (p *peer) endStall() {
	if !p.stalled.IsZero() {
		p.stalled, p.reported = time.Time{}, 0
		p.i.config.Upper.PeerStalled(p.nid, p.stalled)
	}
}

// watch sends the current datagram again, reports a stall to the node, and ends a link on which nothing
// arrives.
func (p *peer) watch(now time.Time, timeout time.Duration) {
	silent, waits := now.Sub(p.since), len(p.out) > 0
	switch {
	case p.local == 0 && now.Sub(p.stalled) > timeout:
		if p.endStall(); len(p.i.peers) > maxPeers/2 {
			delete(p.i.peers, p.nid)
		}
	case p.local == 0:
	case silent > 2*timeout, silent > timeout && waits:
		p.end(lnd.StatusNetworkTimeout, lnd.StatusRemoteDropped, lnd.ErrTimeout)
	case silent > stallAfter && p.doubted:
		p.reportRestart(p.incarnations.AssumeEnded())
		p.end(lnd.StatusNetworkTimeout, lnd.StatusRemoteDropped, lnd.ErrRestarted)
	default:
		p.next()
		if silent > stallAfter && len(p.out) != p.reported {
			p.stalled, p.reported = cmp.Or(p.stalled, p.since), len(p.out)
			p.i.config.Upper.PeerStalled(p.nid, p.stalled)
		} else if p.open && silent > timeout/4 {
			p.write(hello, 0, memory.Vector{})
		}
	}
}

// end ends the link, if there is one, and fails its messages. seen is the status of messages that the peer
// may have received, unseen that of all others.
func (p *peer) end(seen, unseen lnd.Status, err error) {
	if p.local == 0 {
		return
	}
	p.write(reset, 0, memory.Vector{})
	l, out, upper := p.link, p.out, p.i.config.Upper
	p.link, p.out = link{}, nil
	p.i.open.Delete(p.nid)
	if l.open && !p.i.closed {
		upper.ConnectionsLost(p.nid)
	}
	// PeerDown does not follow a call of the peer that led to no link, or a call of Disconnect.
	if (l.open || len(out) > 0) && !p.i.closed && seen != lnd.StatusLocalError {
		upper.PeerDown(lnd.PeerDown{Peer: p.nid, LastAlive: p.heard, Err: failure("connect", p.nid, seen, err)})
	}
	for k, tx := range out {
		if k > 0 || !l.open {
			seen = unseen
		}
		p.fail(tx, seen, err)
	}
	if a := l.in; a != nil {
		if a.lost = failure("receive", p.nid, lnd.StatusNetworkTimeout, err); a.taken {
			a.received(a.lost)
		} else if a.place.Load() == nil {
			upper.Withdrawn(&a.Rx)
		}
	}
}

// arrival is a message that is arriving from a peer.
type arrival struct {
	lnd.Rx
	p     *peer
	place atomic.Pointer[lnd.Placement]
	taken bool  // this node has acknowledged the header
	done  int   // number of payload bytes received
	lost  error // why the link ended, or nil
}

// arrive decodes the header in b and announces the message to the node. It returns false after a protocol
// error.
func (p *peer) arrive(b []byte) bool {
	a := &arrival{p: p, Rx: lnd.Rx{From: lnet.ProcessID{NID: p.nid, PID: lnet.PIDLustre}}}
	a.Driver = a
	if a.Header.DecodeNID16(b) != nil || a.Header.Validate() != nil || p.i.config.Upper.Arrived(&a.Rx) != nil {
		return false
	}
	p.in = a
	return true
}

// placed runs when the node has placed the message. It acknowledges the header, so that the peer sends the
// payload.
func (a *arrival) placed() {
	if a.lost != nil {
		a.received(a.lost)
		return
	}
	a.taken = true
	a.add(nil)
	a.p.write(ack, a.p.expected, memory.Vector{})
}

// add copies the next fragment of the payload to its place and completes the message after the last one.
// placed calls it for the header, with no bytes.
func (a *arrival) add(b []byte) {
	if keep := a.place.Load().Memory; keep.Length > a.done {
		keep.Slice(a.done, keep.Length-a.done).CopyFrom(b)
	}
	a.p.expected++
	if a.done += len(b); a.done == int(a.Header.PayloadLength) {
		a.p.in = nil
		a.received(nil)
	}
}

// received completes the arrival with err. It does nothing if the node has dropped the message.
func (a *arrival) received(err error) {
	if done := a.place.Load().Done; done != nil {
		done.Received(&a.Rx, err)
	}
}
