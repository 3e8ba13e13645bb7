package protocol

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Peering is what a node remembers of a peer while there are connections to it: their version and the peer's
// incarnation. All connections to a peer have the same version and incarnation (socklnd 5.3, 5.4). The zero
// value remembers nothing.
type Peering struct {
	Version     Version // 0: no version is recorded
	Incarnation uint64
	refusals    int // refusals since the last accepted connection
}

// maxRefusals is the number of HELLOs of type NONE that are sent to a peer in a row. More would crash a kernel,
// so later connections are closed without an answer.
const maxRefusals = 2

// MayRefuse counts a refusal and reports whether it may be sent to the peer as a HELLO of type NONE.
func (p *Peering) MayRefuse() bool {
	p.refusals++
	return p.refusals <= maxRefusals
}

// Verdict is the decision on an inbound connection whose HELLO has been received. Its values say what the
// caller of Peering.Accept has to do.
type Verdict uint8

const (
	// Register means: keep the connection, and answer with a HELLO.
	Register Verdict = iota
	// Refuse means: answer with a HELLO of type NONE, and close the connection.
	Refuse
	// RefuseRace means the same as Refuse. The reason is that this node is connecting to the peer itself.
	RefuseRace
	// RefuseStale means: close all connections to the peer, and then do the same as for Refuse.
	RefuseStale
	// Drop means: close the connection without an answer.
	Drop
)

func (v Verdict) String() string {
	return [...]string{"register", "refuse", "refuse race", "refuse stale", "drop"}[v]
}

// Current reports whether the HELLO shows the current incarnation of the peer. A HELLO that was dropped may be
// of an old incarnation. After a race, the HELLO of the other connection shows the incarnation.
func (v Verdict) Current() bool { return v != Drop && v != RefuseRace }

// Inbound contains what Peering.Accept needs to decide on an inbound connection.
type Inbound struct {
	// Hello is the received HELLO. If the caller connects from an unprivileged port, its Src and SrcPID are
	// those that this node has assigned to the caller.
	Hello Hello
	// Self is the NID of this node's NI.
	Self lnet.NID
	// Closing is set if the NI is shutting down, the peer is being closed, or the caller has already closed
	// this connection. Such a connection may be of an earlier incarnation of the peer, and must not cause newer
	// connections to be closed.
	Closing bool
	// Connecting is set if this node is connecting to the address that the connection comes from.
	Connecting bool
	// SameAddress is set if both ends of the connection have the same address. The limit then does not apply.
	SameAddress bool
	// Conns is the number of existing connections of the same type between the two addresses, and Limit the
	// maximum.
	Conns, Limit int
}

// Accept decides on an inbound connection. If there are no others, it records the connection's version and
// incarnation (socklnd 5.3).
func (p *Peering) Accept(in Inbound) Verdict {
	h := &in.Hello
	switch {
	case !h.Type.Valid(), in.Closing:
		return Drop
	case in.Connecting && h.Src.Compare(in.Self) < 0:
		return RefuseRace
	case p.Version == 0:
		p.Version, p.Incarnation = h.Version, h.SrcIncarnation
	case p.Version != h.Version || p.Incarnation != h.SrcIncarnation:
		p.Version = 0
		return RefuseStale
	}
	if in.Conns >= in.Limit && !in.SameAddress {
		return Refuse
	}
	p.refusals = 0
	return Register
}

// Outcome is the decision on a connection that this node has opened (socklnd 5.4). Its values say what the
// caller of Peering.Connect has to do.
type Outcome uint8

const (
	// Connected means: keep the connection.
	Connected Outcome = iota
	// Duplicate means: close the connection, because there are enough of its type.
	Duplicate
	// Race means: close the connection, and try again after a pause. The peer has refused it, as it does while
	// it is connecting to this node.
	Race
	// OtherVersion means: close the connection, and try again with the version that Peering has recorded. The
	// peer has refused the version of the HELLO.
	OtherVersion
	// Stale means: close this connection and all others to the peer, and try again. The others belong to
	// another incarnation or version of the peer.
	Stale
)

func (o Outcome) String() string {
	return [...]string{"connected", "duplicate", "race", "other version", "stale"}[o]
}

// Outbound contains what Peering.Connect needs to decide on a connection that this node has opened.
// SameAddress, Conns and Limit have the same meaning as in Inbound.
type Outbound struct {
	Want         lnet.ProcessID // the process that this node wants to connect to
	Sent, Reply  Hello          // this node's HELLO, and the peer's answer
	SameAddress  bool
	Conns, Limit int
}

// Connect decides on a connection that this node has opened. If there are no others, it records the
// connection's version and incarnation. It returns an error if the peer's answer is invalid; the attempt has
// then failed for good.
func (p *Peering) Connect(out Outbound) (Outcome, error) {
	sent, reply := &out.Sent, &out.Reply
	if got := (lnet.ProcessID{NID: reply.Src, PID: reply.SrcPID}); got != out.Want {
		return 0, fmt.Errorf("hello: it is from %v instead of %v", got, out.Want)
	}
	refused := reply.Type == None
	if !refused && reply.Type.Invert() != sent.Type {
		return 0, fmt.Errorf("hello: connection type %v does not answer type %v", reply.Type, sent.Type)
	}
	if p.Version == 0 {
		p.Version, p.Incarnation = reply.Version, reply.SrcIncarnation
	} else if p.Version != reply.Version || p.Incarnation != reply.SrcIncarnation {
		p.Version = 0
		return Stale, nil
	}
	switch {
	case refused && reply.Version == sent.Version:
		return Race, nil
	case refused:
		return OtherVersion, nil
	case out.Conns >= out.Limit && !out.SameAddress:
		return Duplicate, nil
	}
	return Connected, nil
}

// Counts contains the number of connections to a peer, by type.
type Counts struct{ Any, Control, BulkIn, BulkOut int }

// Of returns a pointer to the number for the type t.
func (c *Counts) Of(t ConnType) *int {
	switch t {
	case Control:
		return &c.Control
	case BulkIn:
		return &c.BulkIn
	case BulkOut:
		return &c.BulkOut
	default:
		return &c.Any
	}
}

// Wanted is the set of connections that this node has to open to a peer: one CONTROL, and PerType each of
// BULK_IN and BULK_OUT (socklnd 2.2, 2.3). A type is complete when enough connections of it exist. It remains
// complete until the last of them has ended, so that single lost connections are not replaced.
type Wanted struct {
	PerType  int
	counts   Counts
	complete [4]bool
}

// Add counts a new connection of type t, which either side has opened.
func (w *Wanted) Add(t ConnType) {
	n := w.counts.Of(t)
	*n++
	if *n >= w.limit(t) {
		w.complete[t] = true
	}
}

// Remove counts a connection of type t that has ended.
func (w *Wanted) Remove(t ConnType) {
	n := w.counts.Of(t)
	*n--
	if *n == 0 {
		w.complete[t] = false
	}
}

// SetPerType changes PerType to n. If a bulk type has fewer than n connections, it is no longer complete, so
// that more are opened. CONTROL does not change.
func (w *Wanted) SetPerType(n int) {
	if w.PerType == n {
		return
	}
	w.PerType = n
	for _, t := range [...]ConnType{BulkIn, BulkOut} {
		w.complete[t] = *w.counts.Of(t) >= w.limit(t)
	}
}

// Settle marks all types as complete, so that no more connections are opened, if at least one connection of
// each type exists (socklnd 7). Otherwise it does nothing and returns false.
func (w *Wanted) Settle() bool {
	for _, t := range [...]ConnType{Control, BulkIn, BulkOut} {
		if *w.counts.Of(t) == 0 {
			return false
		}
	}
	for _, t := range [...]ConnType{Control, BulkIn, BulkOut} {
		w.complete[t] = true
	}
	return true
}

// Skip marks the type t as complete, so that no more connections of it are opened: the peer does not want more,
// or they would be useless.
func (w *Wanted) Skip(t ConnType) { w.complete[t] = true }

// Next returns the type of the connection to open next. It returns false if all types are complete.
func (w *Wanted) Next() (ConnType, bool) {
	switch {
	case !w.complete[Control]:
		return Control, true
	case !w.complete[BulkIn] && w.counts.BulkIn <= w.counts.BulkOut:
		return BulkIn, true
	case !w.complete[BulkOut]:
		return BulkOut, true
	case !w.complete[BulkIn]:
		return BulkIn, true
	}
	return None, false
}

// limit returns how many connections of type t make the type complete.
func (w *Wanted) limit(t ConnType) int {
	if t == Control {
		return 1
	}
	return max(w.PerType, 1)
}

// ConnsPerPeer returns the number of connections of each bulk type for a link with a speed of mbps Mbit/s
// (socklnd 2.2). mbps is 0 if the speed is unknown.
func ConnsPerPeer(mbps int) int {
	n := 1
	for g := max(mbps, 1000) / 1000; g >= 4; g /= 4 {
		n++
	}
	return n
}
