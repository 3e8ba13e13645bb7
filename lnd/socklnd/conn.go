package socklnd

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// conn is an established connection. Only the goroutine that has the reader's role uses its reading side
// (reader.go): the connection's reader, or a caller of Poll that has taken over the role (poll.go). Only the
// goroutine that has the writer's role uses its writing side (writer.go).
//
// The fields that each message uses come first in each part. With many peers, a message finds none of its
// connection's memory in a cache, so fewer cache lines make it cheaper.
type conn struct {
	peer     *peer
	stream   Stream
	rx       *protocol.Receiver
	received atomic.Uint64 // bytes received
	copied   atomic.Uint64 // bytes of payloads that were copied from a buffer of rx
	typ      protocol.ConnType
	version  protocol.Version

	// Reading.
	partial   atomic.Bool   // a message has been received in part
	large     atomic.Bool   // rx holds a large buffer
	open      bool          // the payload of m is being received, and placement.Done is to be called
	waited    bool          // the reader has slept until the bytes that it processes arrived
	arrivals  int32         // messages that have arrived since cork
	took      time.Duration // how long the last timed batch took
	placing   atomic.Uint32 // one of the placing constants, such as placingWait
	poll      sharing
	placement lnd.Placement // the node's placement of m
	pieces    [][]byte      // the placement's memory, only while it is passed to rx
	m         lnd.Rx        // the current message
	placed    chan struct{} // wakes a reader that waits for a placement

	// Writing.
	queuedBytes atomic.Int64 // bytes of messages that are queued or being written
	mu          sync.Mutex   // guards the fields from dead to recalling, except sent, lastUse and w
	dead        bool
	writing     bool // a goroutine has the writer's role
	counted     bool // the interface's Group counts the writer's role until it is released
	awaited     bool // a flusher was started and has not begun to write
	queued      txQueue
	acks        protocol.AckQueue
	sent        atomic.Uint64 // bytes written to the stream
	lastUse     atomic.Uint64 // value of peer.turn when the connection was last selected for a message
	w           writer
	cause       error // why the connection is dead
	// recalling selects, for a pending recall, the messages that the goroutine with the writer's role has to
	// return. It is nil if no recall is pending.
	recalling func(*lnd.Tx) bool
	// drainer and flusher are the method values drain and flushSoon. They are created once, so that starting
	// such a goroutine allocates nothing for them.
	drainer, flusher func()

	local, remote netip.AddrPort
	inbound       bool   // the peer has opened the connection
	recovers      bool   // the peer was troubled before this connection; set before establish
	reserved      bool   // registered with the peer, but not carrying messages yet; guarded by the lock of peer
	ready         bool   // set up, and carries messages once no restart is still to be reported; guarded by the lock of peer
	set           uint64 // number of the connection's set (peer.sets); guarded by the lock of peer

	closed   chan struct{} // closed when the connection is dead
	progress progress      // only the reaper uses it
}

// progress is the reaper's record of a connection, updated by each check.
type progress struct {
	received, acked   uint64    // bytes received, and bytes that the peer's TCP has acknowledged
	receivedAt, ackAt time.Time // when received and acked last grew; zero while no growth is due
	movedAt           time.Time // when the peer's TCP last acknowledged bytes
	idleAt            time.Time // the last check without bytes in flight, or the first check that found some
	flight            bool      // bytes are in flight: sent and not acknowledged
	stalled           time.Time // result of stalledSince in the last check
	linkUps           uint32    // value of peer.linkUps at the last check
}

func newConn(p *peer, s Stream, t protocol.ConnType, v protocol.Version, order binary.ByteOrder) *conn {
	c := &conn{
		peer:    p,
		stream:  s,
		typ:     t,
		version: v,
		local:   s.LocalAddr(),
		remote:  s.RemoteAddr(),
		closed:  make(chan struct{}),
		placed:  make(chan struct{}, 1),
	}
	c.rx = protocol.NewReceiver(v, order, &c.m.Header)
	c.m.Driver = c
	c.m.From = p.ID
	c.acks.Single = v == protocol.V2
	c.drainer, c.flusher = c.drain, c.flushSoon
	return c
}

// killAll closes connections that have already been removed from their peer. Queued messages of which no byte
// was written fail here; the goroutine with the writer's role fails those that it is writing. killAll marks
// all connections dead before it closes the first one, so that each records the true cause even if the peer
// then closes its side of the others. The caller then runs the outbox.
func killAll(victims []*conn, cause error) {
	unstarted := make([][]*lnd.Tx, len(victims))
	for n, c := range victims {
		unstarted[n] = c.markDead(cause)
	}
	for _, c := range victims {
		c.destroy()
	}
	if len(victims) > 0 {
		p := victims[0].peer
		p.i.PutLost(p, cause)
	}
	for n, c := range victims {
		c.peer.i.Put(unstarted[n], c.unstartedError(cause))
	}
}

// markDead marks the connection dead because of cause. It removes and returns the queued messages, which the
// caller fails. If a goroutine has the writer's role, Group counts the role from now on, so that the
// interface does not close before the role is released.
func (c *conn) markDead(cause error) []*lnd.Tx {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead, c.cause = true, cause
	if c.writing {
		c.counted = true
		c.peer.i.Group.Add(1)
	}
	return c.queued.takeAll()
}

// destroy closes the stream of a dead connection and removes the connection from the interface's counts.
func (c *conn) destroy() {
	close(c.closed)
	_ = c.stream.Close() // a failure has no consequences
	i := c.peer.i
	i.Count.Closes.Add(1)
	i.ledger.leave(c)
	if c.inbound {
		i.CallerLeft(c.remote.Addr())
	}
}

// closeCause returns why the connection is dead. It returns nil if the connection is alive.
func (c *conn) closeCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// unstartedError returns the error for a message of which no byte was written before the connection ended
// because of cause.
func (c *conn) unstartedError(cause error) *lnd.Error {
	return c.peer.i.Error("send", c.peer.ID.NID, unstartedStatus(cause), timeoutErrno(cause))
}

// configure sets the options of an established connection (socklnd 16).
func (c *conn) configure() error {
	cfg := &c.peer.i.driver.config
	o := StreamOptions{
		NoDelay:           !cfg.Nagle,
		SendBuffer:        cfg.TxBufferSize,
		ReceiveBuffer:     cfg.RxBufferSize,
		KeepaliveIdle:     cfg.KeepaliveIdle,
		KeepaliveInterval: cfg.KeepaliveInterval,
		KeepaliveCount:    cfg.KeepaliveCount,
		TOS:               c.peer.i.options.Load().TOS,
		QuickAck:          cfg.EagerAck&int(c.typ) != 0,
	}
	if err := c.stream.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := c.stream.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	return c.stream.Configure(o)
}

// unprivileged reports whether the peer connected from an unprivileged port, so that this node did not trust
// its HELLO and has assigned an identity to it (socklnd 5.2).
func (p *peer) unprivileged() bool { return p.ID.PID&lnet.PIDUserFlag != 0 }
