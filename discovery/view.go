package discovery

import "github.com/lnetd/lnetd/lnet"

// PeerID identifies a peer within its Machine. No other peer gets the same ID. 0 means
// none.
type PeerID uint64

// View is an immutable snapshot of a peer. Any goroutine may read it. When the peer
// changes, a ViewChanged action contains the new View.
type View struct {
	// ID is the ID of the peer.
	ID PeerID
	// Primary is the primary NID of the peer.
	Primary lnet.NID
	// NIDs are all NIDs of the peer, grouped by net. They begin with the primary NID,
	// followed by the others on its net. The only exception is a peer that has a locked
	// primary NID and reports another one. NIDs is empty only if the peer was removed.
	NIDs []lnet.NID
	// State holds the flags of the peer.
	State State
	// Seq is the last sequence number that the peer sent.
	Seq uint32
	// AckedSeq is the local sequence number that the peer acknowledged last.
	AckedSeq uint32
	// PushUnacked means that the last push did not reach the peer and will be retried.
	// Messages to the peer do not wait for that.
	PushUnacked bool
	// RetriesEnded means that rounds with the peer have failed so often that they are no
	// longer retried, until a message to the peer is parked or NoteAlive is called.
	RetriesEnded bool
	// Gateway means that routes lead through the peer.
	Gateway bool
}

// UpToDate reports whether this node and the peer have the current ping info of each other
// (discovery 3).
func (v *View) UpToDate(l Local) bool { return v != nil && v.State.upToDate(l, v.AckedSeq) }

// Disabled reports whether discovery is disabled for the peer, so that the peer has only
// one NID or the NIDs that were configured (discovery 3).
func (v *View) Disabled(l Local) bool { return v == nil || v.State.disabled(l) }

// MustWait reports whether a message to the peer must be parked until discovery has
// finished (Machine.Park). It must not be called for an ACK or a REPLY, or for a message
// to 0@lo or to portal 0 (discovery 5.1). A nil View stands for an unknown peer.
func (v *View) MustWait(l Local) bool {
	if l.Mode == Static {
		return false
	}
	return v == nil || v.State.mustWait(l, v.AckedSeq, v.PushUnacked)
}

func (s State) mustWait(l Local, acked uint32, unacked bool) bool {
	if s.Has(RouterDiscovery) || unacked && s.known() {
		return false
	}
	return !s.upToDate(l, acked)
}
