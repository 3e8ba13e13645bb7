package protocol

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Peering is what one side remembers of a peer between connections: the version and the incarnation
// of the first connection. All connections with a peer share them (socklnd 5.3, 5.4). The zero
// value remembers nothing.
type Peering struct {
	Version     Version // 0: no version is recorded
	Incarnation uint64
	refusals    int // in a row
}

// maxRefusals is the number of HELLOs of type NONE that are sent to a peer in a row. More would
// crash kernels, so the next connections are closed without an answer.
const maxRefusals = 2

// MayRefuse counts a refusal and reports whether it may be sent.
func (p *Peering) MayRefuse() bool {
	p.refusals++
	return p.refusals <= maxRefusals
}

// Verdict is the decision on a connection whose HELLO has been read.
type Verdict uint8

const (
	// Register accepts the connection. A passive side answers with its HELLO.
	Register Verdict = iota
	// Refuse sends a HELLO of type NONE, then closes the connection.
	Refuse
	// RefuseRace does the same as Refuse, because we are connecting to the peer ourselves.
	RefuseRace
	// RefuseStale closes all connections with the peer, and then does the same as Refuse.
	RefuseStale
	// Drop closes the connection without an answer.
	Drop
)

func (v Verdict) String() string {
	return [...]string{"register", "refuse", "refuse race", "refuse stale", "drop"}[v]
}

// Current reports whether the HELLO shows the current incarnation of the peer. One that was
// dropped may be of an old incarnation; after a race the next HELLO shows it.
func (v Verdict) Current() bool { return v != Drop && v != RefuseRace }

// Inbound is what a passive side knows when it decides on a connection.
type Inbound struct {
	// Hello is the received HELLO. For an unprivileged peer it holds the identity that we assigned
	// to it.
	Hello Hello
	// Self is the NID of our NI.
	Self lnet.NID
	// Closing is set if the NI is shutting down, the peer is being closed, or the caller has
	// already closed this connection. Such a connection may belong to an earlier life of the peer,
	// and must not close newer connections.
	Closing bool
	// Connecting is set if we are connecting to the address that the connection comes from.
	Connecting bool
	// SameAddress is set if both ends have the same address. Then no limit applies.
	SameAddress bool
	// Conns is the number of connections between the two addresses that have the same type. Limit
	// is the maximum.
	Conns, Limit int
}

// Accept decides on an inbound connection and records the version and the incarnation (socklnd
// 5.3).
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

// Outcome is the result of an active attempt (socklnd 5.4).
type Outcome uint8

const (
	// Connected accepts the connection.
	Connected Outcome = iota
	// Duplicate closes the connection, because there are enough of its type.
	Duplicate
	// Race means that the peer refused, as it does while it connects to us. Try again after a
	// pause.
	Race
	// OtherVersion means that the peer refused the version. Try again with the peer's version.
	OtherVersion
	// Stale means that the recorded connections belong to another incarnation or version of the
	// peer. Close them all and try again.
	Stale
)

func (o Outcome) String() string {
	return [...]string{"connected", "duplicate", "race", "other version", "stale"}[o]
}

// Outbound is what an active side knows when it decides on a connection.
type Outbound struct {
	Want         lnet.ProcessID // the process to which we are connecting
	Sent, Reply  Hello
	SameAddress  bool
	Conns, Limit int
}

// Connect decides on an outbound connection and records the version and the incarnation. An error
// is a hard failure.
func (p *Peering) Connect(out Outbound) (Outcome, error) {
	sent, reply := &out.Sent, &out.Reply
	if got := (lnet.ProcessID{NID: reply.Src, PID: reply.SrcPID}); got != out.Want {
		return 0, fmt.Errorf("hello: src_nid, src_pid %v: wanted %v", got, out.Want)
	}
	refused := reply.Type == None
	if !refused && reply.Type.Invert() != sent.Type {
		return 0, fmt.Errorf("hello: type %v: does not answer %v", reply.Type, sent.Type)
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

// Counts holds the number of connections with a peer by type.
type Counts struct{ Any, Control, BulkIn, BulkOut int }

// Of returns the counter of a type.
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

// Wanted determines which connections an active side still has to open: one CONTROL, and PerType
// each of BULK_IN and BULK_OUT (socklnd 2.2, 2.3). Once a type is complete, it stays so until its
// count drops to zero.
type Wanted struct {
	PerType  int
	counts   Counts
	complete [4]bool
}

// Add counts a new connection, whichever side opened it.
func (w *Wanted) Add(t ConnType) {
	n := w.counts.Of(t)
	*n++
	if *n >= w.limit(t) {
		w.complete[t] = true
	}
}

// Remove counts a closed connection.
func (w *Wanted) Remove(t ConnType) {
	n := w.counts.Of(t)
	*n--
	if *n == 0 {
		w.complete[t] = false
	}
}

// SetPerType changes PerType. A bulk type is then complete if it has at least n connections;
// otherwise more are opened. CONTROL does not change.
func (w *Wanted) SetPerType(n int) {
	if w.PerType == n {
		return
	}
	w.PerType = n
	for _, t := range [...]ConnType{BulkIn, BulkOut} {
		w.complete[t] = *w.counts.Of(t) >= w.limit(t)
	}
}

// Settle marks all types as complete if each of them has a connection, and reports whether it did
// so (socklnd 7).
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

// Skip marks a type as complete, because the peer has as many connections of it as it wants.
func (w *Wanted) Skip(t ConnType) { w.complete[t] = true }

// Next returns the type to open next. It returns false if all are complete.
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

func (w *Wanted) limit(t ConnType) int {
	if t == Control {
		return 1
	}
	return max(w.PerType, 1)
}

// ConnsPerPeer returns the number of connections of each bulk type for a link of the given speed in
// Mbit/s (socklnd 2.2). An unknown speed is 0.
func ConnsPerPeer(mbps int) int {
	n := 1
	for g := max(mbps, 1000) / 1000; g >= 4; g /= 4 {
		n++
	}
	return n
}
