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

// conn is an established connection. Its reading side (reader.go) belongs to its reader, or to a caller
// that has taken over the reader's role (poll.go). Its writing side (writer.go) belongs to the
// goroutine that has the writer's role.
type conn struct {
	peer          *peer
	stream        Stream
	typ           protocol.ConnType
	version       protocol.Version
	local, remote netip.AddrPort
	inbound       bool
	reserved      bool   // registered, but not carrying messages yet; guarded by the lock of peer
	ready         bool   // reserved, and waits only for reports of restarts; guarded by the lock of peer
	set           uint64 // number of the connection set; guarded by the lock of peer

	closed chan struct{} // closed when the connection is dead

	// Reading.
	rx        *protocol.Receiver
	m         lnd.Rx
	placement lnd.Placement
	placing   atomic.Uint32 // a placing
	placed    chan struct{} // wakes a reader that waits for a placement
	pieces    [][]byte      // of the placement's memory
	open      bool          // the placement has been applied and is not complete
	partial   atomic.Bool   // a message has been received in part
	large     atomic.Bool   // the receiver holds a large buffer
	received  atomic.Uint64 // bytes
	copied    atomic.Uint64 // bytes of payloads
	poll      polling

	// Writing.
	queuedBytes atomic.Int64 // payload and overhead of queued messages and of those being written
	lastUse     atomic.Uint64
	sent        atomic.Uint64 // bytes
	mu          sync.Mutex    // guards the fields from dead to recalling, except w, which belongs to the writer
	dead        bool
	cause       error // of death
	writing     bool  // a goroutine has the writer's role
	owed        bool  // the interface's group waits for the writer's role to be released
	awaited     bool  // the flusher is about to run
	queued      txQueue
	acks        protocol.AckQueue
	w           writer
	// drainer and flusher are the method values drain and flushSoon, created once.
	drainer, flusher func()
	// recalling selects the messages that the holder of the writer's role has to return (recall).
	recalling func(*lnd.Tx) bool

	progress progress // used by the reaper only
}

// progress is the reaper's record of a connection. The times are those of the last progress, or zero
// while no progress is expected.
type progress struct {
	received, acked   uint64
	receivedAt, ackAt time.Time
	movedAt           time.Time // when the peer's stack last acknowledged bytes
	idleAt            time.Time // when nothing was last in flight, or when bytes in flight were first seen
	flight            bool      // bytes are in flight
	stalled           time.Time // result of stalledSince
	linkUps           uint32    // of the peer, as last seen
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

// killAll closes connections that have already been detached from their peer. It fails their queued
// messages that have not been started; the writer fails those being written. It marks all connections
// dead before it closes the first, so that each records the true cause even if the peer then closes its
// side of the others. The caller then runs the outbox.
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

// markDead marks the connection dead and returns the queued messages.
func (c *conn) markDead(cause error) []*lnd.Tx {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead, c.cause = true, cause
	if c.writing {
		c.owed = true
		c.peer.i.Group.Add(1)
	}
	return c.queued.takeAll()
}

// destroy closes a dead connection.
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

// closeCause returns why the connection was killed, or nil if it is alive.
func (c *conn) closeCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

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

// unprivileged reports whether the peer's identity was assigned by this node.
func (p *peer) unprivileged() bool { return p.ID.PID&lnet.PIDUserFlag != 0 }
