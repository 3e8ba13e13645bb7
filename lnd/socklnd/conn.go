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

// conn is an established connection. Its reading side (reader.go) belongs to
// its reader, or to a caller who has its role (poll.go), its writing side (writer.go) to
// whoever holds the writer's role.
type conn struct {
	peer          *peer
	stream        Stream
	typ           protocol.ConnType
	version       protocol.Version
	local, remote netip.AddrPort
	inbound       bool
	reserved      bool   // counted, but not yet carrying messages; guarded by peer.mu
	set           uint64 // which of the peer's sets it belongs to; guarded by peer.mu

	closed chan struct{} // closed when the connection is dead

	// Reading.
	rx        *protocol.Receiver
	m         lnd.Rx
	placement lnd.Placement
	placing   atomic.Uint32 // a placing
	placed    chan struct{} // pokes a reader that waits for a placement
	pieces    [][]byte      // of the placement's memory
	open      bool          // the placement has been taken and is not complete
	partial   atomic.Bool   // a message has begun and is not complete
	large     atomic.Bool   // the receiver holds a large buffer
	received  atomic.Uint64 // bytes
	copied    atomic.Uint64 // bytes of payloads
	poll      polling

	// Writing.
	queuedBytes atomic.Int64 // payload and overhead of what is queued or being written
	lastUse     atomic.Uint64
	sent        atomic.Uint64 // bytes
	mu          sync.Mutex    // guards dead to recalling; but w belongs to the holder of the role
	dead        bool
	cause       error // of death
	writing     bool  // somebody holds the writer's role
	owed        bool  // and the interface's group waits for it to be given up
	awaited     bool  // the flusher is about to run
	queued      txQueue
	acks        protocol.AckQueue
	w           writer
	// drainer and flusher are drain and flushSoon, made once.
	drainer, flusher func()
	// recalling is what whoever holds the role shall give back (recall).
	recalling func(*lnd.Tx) bool

	progress progress // guarded by the reaper being one goroutine
}

// progress is what the reaper remembers of a connection. A time is that of the
// last progress, zero while none is due.
type progress struct {
	received, acked   uint64
	receivedAt, ackAt time.Time
	movedAt           time.Time // when the peer's stack was seen to acknowledge last
	idleAt            time.Time // when nothing was under way last, or what is was first seen
	flight            bool      // something is
	stalled           time.Time // stalledSince
	linkUps           uint32    // of the Interface and the peer, as seen last
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
	c.m.From = p.id
	c.acks.Single = v == protocol.V2
	c.drainer, c.flusher = c.drain, c.flushSoon
	return c
}

// killAll closes connections, which have left their peer, and fails what is
// queued and has not been started. What is being written is failed by who
// writes it. All are dead before the first is closed, so that each knows the
// true cause when the peer closes its side of the others. If tell is not nil it is
// called when all are closed, and before messages fail that were not started.
func killAll(victims []*conn, cause error, tell func()) {
	unstarted := make([][]*lnd.Tx, len(victims))
	for n, c := range victims {
		unstarted[n] = c.die(cause)
	}
	for _, c := range victims {
		c.bury()
	}
	if tell != nil {
		tell()
	}
	if len(victims) > 0 {
		victims[0].peer.notifyLost(cause)
	}
	for n, c := range victims {
		c.peer.i.failures.addAll(unstarted[n], c.unstartedError(cause))
	}
}

// die marks the connection dead and returns what was queued.
func (c *conn) die(cause error) []*lnd.Tx {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead, c.cause = true, cause
	if c.writing {
		c.owed = true
		c.peer.i.group.Add(1)
	}
	return c.queued.takeAll()
}

// bury closes a dead connection.
func (c *conn) bury() {
	close(c.closed)
	_ = c.stream.Close() // nothing can be done about a failure
	i := c.peer.i
	i.counters.closes.Add(1)
	i.ledger.leave(c)
	if c.inbound {
		i.releaseSource(c.remote.Addr())
	}
}

// causeOfDeath is why a connection was killed; nil if it lives.
func (c *conn) causeOfDeath() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

func (c *conn) unstartedError(cause error) *lnd.Error {
	return messageError("send", c.peer.id.NID, unstartedStatus(cause), timeoutErrno(cause))
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
		TOS:               c.peer.i.options.Load().tos,
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

// unprivileged tells whether the peer's identity was made up by us.
func (p *peer) unprivileged() bool { return p.id.PID&lnet.PIDUserFlag != 0 }
