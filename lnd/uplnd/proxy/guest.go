package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
)

// guest is the proxy's end of the connection. It implements lnd.Upper for the driver's interface.
type guest struct {
	config  *Config
	ring    *shared.Client
	area    *shared.Memory
	clock   shared.Clock
	timeout atomic.Int64  // the LND timeout
	self    lnet.NID      // of the NI
	iface   lnd.Interface // set by open, with mu held
	opened  atomic.Bool   // iface is set
	// stopping makes read return.
	stopping atomic.Bool
	// messages are the messages that lnetd has ordered to send.
	messages sync.Pool // *message
	// The goroutine that reads orders uses the fields below.
	entry   [protocol.EntrySize]byte
	entries [2]protocol.Entry

	mu       sync.Mutex   // guards the fields below
	asked    []chan<- pid // for the PIDs that lnetd has not answered for, in the order of the requests
	over     bool         // the ring must not be used
	sending  map[uint64]*message
	arrivals protocol.Handles[*arrival]
	buffers  *protocol.Buffers
	early    []early          // that have arrived before the interface was open
	known    int              // arrivals that lnetd knows or will know, at most maxKnown
	maxKnown int              // as lnetd permits
	later    []*arrival       // to be announced when known is smaller
	starved  []*arrival       // that wait for a buffer
	ahead    map[lnet.NID]int // payloads that were received before lnetd had a place, by peer
	// aheadBytes is the size of their buffers, at most maxAheadBytes.
	aheadBytes, maxAheadBytes int

	vouched map[lnet.NID]bool // peers that the node vouches for
	reports []protocol.Entry  // that found no room in the ring
	retry   *time.Timer       // runs while reports is not empty
}

const (
	// maxAhead is the maximum number of payloads of one peer that are received before lnetd has a place for
	// them.
	maxAhead = 8
	// maxVouched is the maximum number of peers that are remembered as vouched for.
	maxVouched = 4096
	// retryReports is the time after which reports that found no room are tried again. lnetd always reads.
	retryReports = time.Millisecond
	// reasonTimeout is how long lnetd may take to say why it has ended the connection.
	reasonTimeout = 5 * time.Second
	// closeTimeout is how long the interface may take to close.
	closeTimeout = 30 * time.Second
)

func newGuest(c *Config, a *protocol.Attached, ring *shared.Client, area *shared.Memory) *guest {
	half := a.AreaSize / 2
	g := &guest{
		config: c, self: a.NID, maxKnown: ring.Sizes().Submissions / 4, maxAheadBytes: half / 2, ring: ring, area: area,
		clock: shared.ReadClock(), sending: make(map[uint64]*message),
		buffers: protocol.NewBuffers(uint64(half), half), ahead: make(map[lnet.NID]int), vouched: make(map[lnet.NID]bool),
	}
	g.messages.New = func() any { return &message{guest: g} }
	g.timeout.Store(int64(a.Timeout))
	return g
}

// close closes the interface. Reports about its messages can still be put into the ring.
func (g *guest) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := g.iface.Close(ctx); err != nil {
		return errors.Join(errOpen, err)
	}
	return nil
}

// errOpen means that the interface may still use the area.
var errOpen = errors.New("proxy: the interface is not closed")

// lost waits until the connection ends and returns the reason.
func (g *guest) lost(conn *net.UnixConn) error {
	b := make([]byte, protocol.MaxRecord+1)
	n, err := conn.Read(b)
	switch {
	case n == 0 || errors.Is(err, io.EOF):
		return errors.New("proxy: lnetd has ended the connection")
	case err != nil:
		return fmt.Errorf("proxy: connection to lnetd: %w", err)
	}
	if _, err = protocol.DecodeAnswer(b[:n]); err == nil {
		err = errors.New("lnetd has sent a second answer")
	}
	return fmt.Errorf("proxy: detached: %w", err)
}

// read carries out orders until the ring is shut or stopping is set.
func (g *guest) read() error {
	orders := &g.ring.Completions
	for {
		found, err := g.readBatch()
		if err != nil {
			return err
		}
		orders.Release()
		if g.stopping.Load() {
			return nil
		}
		if found {
			continue
		}
		if err := orders.Wait(time.Time{}); errors.Is(err, shared.ErrShut) || errors.Is(err, shared.ErrGone) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// readBatch carries out the orders that are in the ring, and reports whether there were any. Each is carried out
// when the next one is known: if both are messages to one peer, the driver may send them together.
func (g *guest) readBatch() (found bool, err error) {
	e, next := &g.entries[0], &g.entries[1]
	for {
		more, err := g.ring.Completions.Read(g.entry[:])
		if err != nil {
			return found, err
		}
		if more {
			if err := next.DecodeOrder(&g.entry); err != nil {
				return found, fmt.Errorf("proxy: order of lnetd: %w", err)
			}
		}
		if found {
			e.More = e.More || more && next.Op == protocol.Send && next.Peer == e.Peer
			if err := g.carryOut(e); err != nil {
				return found, err
			}
		}
		if !more {
			return found, nil
		}
		found = true
		e, next = next, e
	}
}

// carryOut carries out an order. Messages cannot be sent before the interface is open.
func (g *guest) carryOut(e *protocol.Entry) error {
	if !g.opened.Load() {
		switch e.Op {
		case protocol.Send:
			sent := protocol.Entry{Op: protocol.Sent, Handle: e.Handle}
			sent.SetError(&lnd.Error{Op: "send", Peer: e.Peer.NID, Status: lnd.StatusRemoteDropped, Err: lnd.ErrUnreachable})
			g.report(&sent)
			return nil
		case protocol.Recall, protocol.Disconnect, protocol.LinkBack, protocol.Probe:
			return nil
		}
	}
	switch e.Op {
	case protocol.Send:
		return g.send(e)
	case protocol.Recall:
		g.recall(e.Handle)
	case protocol.Take:
		return g.take(e.Handle, int(e.Length))
	case protocol.Done, protocol.Refuse:
		return g.done(e.Handle, e.Op == protocol.Refuse)
	case protocol.Wait: // the arrival counts as ahead anyway
	case protocol.Disconnect:
		g.iface.Disconnect(e.Peer.NID)
	case protocol.LinkBack:
		g.iface.LinkBack(e.Peer.NID)
	case protocol.Probe:
		g.iface.Probe(e.Peer.NID)
	case protocol.Timeout:
		g.timeout.Store(int64(e.Time))
	case protocol.PID:
		return g.registered(e)
	}
	return nil
}

// pid is lnetd's answer about a PID.
type pid struct {
	pid   lnet.PID
	cause protocol.Cause
}

// registered passes on lnetd's answer about a PID.
func (g *guest) registered(e *protocol.Entry) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) == 0 {
		return errors.New("proxy: lnetd answers about a PID that was not asked for")
	}
	g.asked[0] <- pid{e.Peer.PID, e.Cause}
	g.asked = g.asked[1:]
	return nil
}

// ask reports that a PID is wanted, and returns the channel for lnetd's answer.
func (g *guest) ask(e *protocol.Entry) <-chan pid {
	answer := make(chan pid, 1)
	g.mu.Lock()
	g.asked = append(g.asked, answer)
	g.put(e)
	g.unlock()
	return answer
}

// report puts a report into the ring and wakes lnetd. It does not block.
func (g *guest) report(e *protocol.Entry) {
	g.mu.Lock()
	g.put(e)
	g.unlock()
}

// put puts a report into the ring, behind those that wait for room. g.mu is held.
func (g *guest) put(e *protocol.Entry) {
	if g.over || len(g.reports) == 0 && g.putNow(e) {
		return
	}
	if g.reports = append(g.reports, *e); len(g.reports) == 1 {
		g.retry = time.AfterFunc(retryReports, g.flush)
	}
}

// putNow puts a report into the ring if there is room. g.mu is held.
func (g *guest) putNow(e *protocol.Entry) bool {
	b, _ := g.ring.Submissions.Slot() // after an error, lnetd has detached this proxy
	if b == nil {
		return false
	}
	e.Put((*[protocol.EntrySize]byte)(b))
	g.ring.Submissions.Advance()
	g.ring.Submissions.Publish()
	return true
}

// unlock releases g.mu, and wakes lnetd if it sleeps.
func (g *guest) unlock() {
	var wake shared.Wakeup
	if !g.over {
		wake = g.ring.Submissions.Claim()
	}
	g.mu.Unlock()
	g.ring.Submissions.Wake(wake)
}

// flush puts reports into the ring that found no room.
func (g *guest) flush() {
	g.mu.Lock()
	n := 0
	for n < len(g.reports) && !g.over && g.putNow(&g.reports[n]) {
		n++
	}
	g.reports = append(g.reports[:0], g.reports[n:]...)
	if len(g.reports) > 0 && !g.over {
		g.retry.Reset(retryReports)
	}
	g.unlock()
}

// stop ends the use of the ring and of the area. The interface is closed.
func (g *guest) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.retry != nil {
		g.retry.Stop()
	}
}
