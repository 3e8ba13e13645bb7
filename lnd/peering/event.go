package peering

import (
	"errors"
	"log/slog"

	"github.com/lnetd/lnetd/lnd"
)

// Event is an upcall or a completion that an Outbox will make.
type Event struct {
	// Kind, Subject and Err are set by the creator of the event. For events of a driver, only Setup.Make uses
	// Subject and Err.
	Kind    EventKind
	Subject any
	Err     error

	m    *lnd.Tx       // of eventFailed
	down *lnd.PeerDown // of eventDown
}

// EventKind is the kind of an Event. Values below OwnEvents are the engine's; a driver defines its kinds from
// OwnEvents on.
type EventKind uint8

// The engine's events.
const (
	eventFailed    EventKind = iota // completion of m with Err
	eventLost                       // upcall ConnectionsLost; Subject is the peer, a Member
	eventDown                       // upcall PeerDown with down
	eventRestarted                  // upcall PeerRestarted; Subject is the peer, a Member
	OwnEvents                       // first kind of a driver's own events
)

// Failed returns the event that completes m with err. The caller has removed m from every queue and
// connection.
func Failed(m *lnd.Tx, err error) Event { return Event{Kind: eventFailed, m: m, Err: err} }

// make makes the upcall or completion of one event. No lock is held.
func (e *Engine[P]) make(v *Event) {
	switch v.Kind {
	case eventFailed:
		v.m.Done.Sent(v.m, v.Err)
	case eventLost:
		e.Upper.ConnectionsLost(v.Subject.(P).Common().ID.NID)
	case eventDown:
		e.Upper.PeerDown(*v.down)
	case eventRestarted:
		p := v.Subject.(P)
		c := p.Common()
		e.Count.PeersRestarted.Add(1)
		e.Log.Debug("peer restarted", "peer", c.ID.String())
		e.Upper.PeerRestarted(c.ID.NID)
		c.Lock()
		c.restarts--
		c.Unlock()
		p.Restarted()
	default:
		e.Make(v)
	}
}

// Put queues the completion of messages with err. The caller has removed them from every queue and
// connection. Locks may be held. When they are released, the caller runs the outbox.
func (e *Engine[P]) Put(ms []*lnd.Tx, err error) {
	for _, m := range ms {
		e.Out.Put(Failed(m, err))
	}
}

// PutLost queues the upcall ConnectionsLost for connections to a peer that have ended because of cause. It
// does nothing if they ended because the interface is closing, or if the peer is not a node.
func (e *Engine[P]) PutLost(p P, cause error) {
	if p.Common().listens() && !errors.Is(cause, lnd.ErrClosed) {
		e.Out.Put(Event{Kind: eventLost, Subject: p})
	}
}

// PutDown queues the upcall PeerDown with the error in the peer's Loss, and clears Loss, so that each loss is
// reported once. It does nothing if Loss is nil, if the interface is closing, or if the peer is a process
// that this node cannot connect to (socklnd 15.4). An orderly end of the connections is a loss too, because a
// peer that closes its connections is shutting down. The peer's lock is held. The caller has made sure that
// no attempt to connect is in progress.
func (e *Engine[P]) PutDown(p P) {
	c := p.Common()
	err := c.Loss
	c.Loss = nil
	if err == nil || !c.listens() || e.Closed() || errors.Is(err, lnd.ErrClosed) {
		return
	}
	e.Count.PeersDown.Add(1)
	e.Out.Put(Event{Kind: eventDown, down: &lnd.PeerDown{Peer: c.ID.NID, LastAlive: c.LastAlive, Err: err}})
}

// Observe records the incarnation that a peer has announced. home reports whether the peer was met at the
// address that its NID contains. If the incarnation shows a restart of a node, Observe queues the upcall
// PeerRestarted. The peer's lock is held.
func (e *Engine[P]) Observe(p P, incarnation uint64, home bool) {
	c := p.Common()
	c.Record.Home = c.Record.Home || home
	if c.Record.Incarnations.Observe(incarnation) && c.listens() {
		e.putRestart(p)
	}
}

// AssumeRestarted ends the peer's doubt after a connection has ended, and reports whether there was one. gone
// means that the way in which the connection ended shows that the incarnation has ended too. If the peer was
// in doubt and gone is set, AssumeRestarted queues the upcall PeerRestarted. The peer's lock is held.
func (e *Engine[P]) AssumeRestarted(p P, gone bool) (doubted bool) {
	c := p.Common()
	doubted = c.Doubt.End()
	if doubted && gone && c.Record.Incarnations.AssumeEnded() {
		e.putRestart(p)
	}
	return doubted
}

// putRestart queues the upcall PeerRestarted. Until it has returned, Peer.Unreported is true. The peer's lock
// is held.
func (e *Engine[P]) putRestart(p P) {
	p.Common().restarts++
	e.Out.Put(Event{Kind: eventRestarted, Subject: p})
}

// LogPeer logs an event of a peer's connections.
func (e *Engine[P]) LogPeer(p P, level slog.Level, text string, attrs ...slog.Attr) {
	logPeer(e.Log, p.Common().ID.NID, level, text, attrs...)
}

// LogRecovered logs that a failure of a peer's connections has ended.
func (e *Engine[P]) LogRecovered(p P, text string) { logRecovered(e.Log, p.Common().ID.NID, text) }

// LogClosed logs the end of count connections with a peer.
func (e *Engine[P]) LogClosed(p P, count int, cause error) {
	logClosed(e.Log, p.Common().ID.NID, count, cause)
}
