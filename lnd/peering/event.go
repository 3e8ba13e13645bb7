package peering

import (
	"errors"
	"log/slog"

	"github.com/lnetd/lnetd/lnd"
)

// Event is an upcall or a completion to be made.
type Event struct {
	// Kind is the driver's, for events that it has created itself; Subject and Err are for its use.
	Kind    EventKind
	Subject any
	Err     error

	m    *lnd.Tx
	down *lnd.PeerDown
}

// EventKind is the kind of an Event. A driver defines its own, from OwnEvents on.
type EventKind uint8

// The engine's events.
const (
	eventFailed    EventKind = iota // a message that no connection has
	eventLost                       // ConnectionsLost of Subject, a Member
	eventDown                       // PeerDown
	eventRestarted                  // PeerRestarted of Subject, a Member
	OwnEvents
)

// Failed returns the completion of a message that no connection has.
func Failed(m *lnd.Tx, err error) Event { return Event{Kind: eventFailed, m: m, Err: err} }

// make makes one upcall or completion. No lock is held.
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

// Put queues the completion of messages that no connection has. Locks may be held. The caller then runs the
// outbox.
func (e *Engine[P]) Put(ms []*lnd.Tx, err error) {
	for _, m := range ms {
		e.Out.Put(Failed(m, err))
	}
}

// PutLost queues the report that connections to a peer have died because of cause, unless this node is
// closing.
func (e *Engine[P]) PutLost(p P, cause error) {
	if p.Common().listens() && !errors.Is(cause, lnd.ErrClosed) {
		e.Out.Put(Event{Kind: eventLost, Subject: p})
	}
}

// PutDown queues the report that a peer is lost, if it has not been made since the peer's last connection or
// attempt has ended. An orderly end counts too: a peer that closes its connections is shutting down. Loss is
// the error to report. Processes that only their own connections can reach are not reported (socklnd 15.4).
// The peer's lock is held. The caller has made sure that nothing is in progress that may succeed.
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

// Observe records an incarnation that a peer has announced, at its NID's own address or not. If that shows a
// restart, it queues the report. The peer's lock is held.
func (e *Engine[P]) Observe(p P, incarnation uint64, home bool) {
	c := p.Common()
	c.Record.Home = c.Record.Home || home
	if c.Record.Incarnations.Observe(incarnation) && c.listens() {
		e.putRestart(p)
	}
}

// AssumeRestarted ends a doubt when a connection has ended. gone means that this shows that the peer's incarnation
// has ended too; a restart is then reported. AssumeRestarted returns whether there was a doubt. The peer's lock is
// held.
func (e *Engine[P]) AssumeRestarted(p P, gone bool) (doubted bool) {
	c := p.Common()
	doubted = c.Doubt.End()
	if doubted && gone && c.Record.Incarnations.AssumeEnded() {
		e.putRestart(p)
	}
	return doubted
}

func (e *Engine[P]) putRestart(p P) {
	p.Common().restarts++
	e.Out.Put(Event{Kind: eventRestarted, Subject: p})
}

// LogPeer logs an event of a peer's connections.
func (e *Engine[P]) LogPeer(p P, level slog.Level, text string, attrs ...slog.Attr) {
	logPeer(e.Log, p.Common().ID.NID, level, text, attrs...)
}

// LogClosed logs the end of count connections with a peer.
func (e *Engine[P]) LogClosed(p P, count int, cause error) {
	logClosed(e.Log, p.Common().ID.NID, count, cause)
}
