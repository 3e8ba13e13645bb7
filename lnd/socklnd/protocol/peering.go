package protocol

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Peering is what a side remembers of a peer from one connection to the next:
// the version and the incarnation of the first one. All connections of a peer
// share them (socklnd 5.3, 5.4). The zero value remembers nothing.
type Peering struct {
	Version     Version // 0: none recorded
	Incarnation uint64
	// Lives outlast the connections. Who forgets a peer may keep them, for the
	// Peering of the same peer later on.
	Lives     Lives
	restarted bool
	refusals  int // in a row
}

// Restarted tells, once, that the HELLO judged last has shown a life of the
// peer's that is neither the first nor one that was met before, whatever has
// become of the connection.
func (p *Peering) Restarted() bool {
	restarted := p.restarted
	p.restarted = false
	return restarted
}

func (p *Peering) meet(incarnation uint64) {
	if p.Lives.Meet(incarnation) {
		p.restarted = true
	}
}

// maxRefusals is how often in a row a peer is told NONE. More crash kernels:
// the connection is then closed without an answer.
const maxRefusals = 2

// MayRefuse counts a refusal and tells whether it may be sent.
func (p *Peering) MayRefuse() bool {
	p.refusals++
	return p.refusals <= maxRefusals
}

// Verdict is what becomes of a connection whose HELLO has been read.
type Verdict uint8

const (
	// Register: the connection is good; a passive side answers with its HELLO.
	Register Verdict = iota
	// Refuse: answer with a HELLO of type NONE, then close.
	Refuse
	// RefuseStale: as Refuse, after closing all connections of the peer.
	RefuseStale
	// Drop: close without an answer.
	Drop
)

func (v Verdict) String() string {
	return [...]string{"register", "refuse", "refuse stale", "drop"}[v]
}

// Inbound is what a passive side knows when it decides on a connection.
type Inbound struct {
	// Hello is what came; for an unprivileged peer with the identity made up
	// for it.
	Hello Hello
	// Self is our NI's NID.
	Self lnet.NID
	// Closing: the NI is shutting down, the peer is being torn down, or this
	// caller has gone already: it may be of a set, or a life, that is over, and
	// those that have come up since must not end with it.
	Closing bool
	// Connecting: we are connecting to the address that this one comes from.
	Connecting bool
	// SameAddress: both ends have one address; no limit applies.
	SameAddress bool
	// Conns is the number of connections between the two addresses of the
	// type that this one would get; Limit is how many there may be.
	Conns, Limit int
}

// Accept decides on an inbound connection and records what it must (socklnd
// 5.3).
func (p *Peering) Accept(in Inbound) Verdict {
	h := &in.Hello
	switch {
	case !h.Type.Valid(), in.Closing:
		return Drop
	case in.Connecting && h.Src.Compare(in.Self) < 0:
		return Refuse
	}
	p.meet(h.SrcIncarnation)
	switch {
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
	// Connected: the connection is good.
	Connected Outcome = iota
	// Duplicate: there are enough connections of the type; close this one.
	Duplicate
	// Race: the peer refused, as it does when it connects to us; try again
	// after a pause.
	Race
	// OtherVersion: the peer refused the version; try again with its own.
	OtherVersion
	// Stale: the peer is not the one that the recorded connections belong
	// to; close them all and try again.
	Stale
)

func (o Outcome) String() string {
	return [...]string{"connected", "duplicate", "race", "other version", "stale"}[o]
}

// Outbound is what an active side knows when it decides on a connection.
type Outbound struct {
	Want         lnet.ProcessID // whom we are connecting to
	Sent, Reply  Hello
	SameAddress  bool
	Conns, Limit int
}

// Connect decides on an outbound connection and records what it must. An error
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
	p.meet(reply.SrcIncarnation)
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

// Counts is the number of connections with a peer by type.
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

// Wanted tracks which connections an active side still has to open: one
// CONTROL, and PerType each of BULK_IN and BULK_OUT (socklnd 2.2, 2.3). A type
// once complete stays so until its count drops to zero.
type Wanted struct {
	PerType  int
	counts   Counts
	complete [4]bool
}

// Add counts a connection, opened by either side.
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

// SetPerType changes PerType. Types of which there are as many are complete; of the others
// more are to be opened. CONTROL stays as it is.
func (w *Wanted) SetPerType(n int) {
	if w.PerType == n {
		return
	}
	w.PerType = n
	for _, t := range [...]ConnType{BulkIn, BulkOut} {
		w.complete[t] = *w.counts.Of(t) >= w.limit(t)
	}
}

// Settle declares every type of which there is a connection complete; it
// reports whether that leaves nothing to open (socklnd 7).
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

// Skip declares one type complete: the peer has as many as it wants.
func (w *Wanted) Skip(t ConnType) { w.complete[t] = true }

// Next returns the type to open next; none if all are complete.
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

// ConnsPerPeer is the number of connections of each bulk type that a link of
// the speed in Mbit/s deserves (socklnd 2.2); an unknown speed is 0.
func ConnsPerPeer(mbps int) int {
	n := 1
	for g := max(mbps, 1000) / 1000; g >= 4; g /= 4 {
		n++
	}
	return n
}
