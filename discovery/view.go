package discovery

import "github.com/lnetd/lnetd/lnet"

// PeerID identifies a peer within its Machine. It is never reused. 0 means none.
type PeerID uint64

// View is an immutable snapshot of a peer. Any goroutine may read it. A ViewChanged
// replaces it.
type View struct {
	// ID is the ID of the peer.
	ID PeerID
	// Primary is the primary NID of the peer.
	Primary lnet.NID
	// NIDs are all NIDs of the peer, grouped by net. The net of the primary NID comes
	// first, and in it the primary NID, unless it is locked and the peer reports another
	// one. NIDs is empty only if the peer was removed.
	NIDs []lnet.NID
	// State holds the flags of the peer.
	State State
	// Seq is the last sequence number that the peer sent.
	Seq uint32
	// AckedSeq is the local sequence number that the peer acknowledged last.
	AckedSeq uint32
	// PushUnacked means that the last push did not reach the peer and will be retried. Messages
	// are sent meanwhile.
	PushUnacked bool
	// RetriesEnded means that rounds with the peer have failed so often that no more are begun,
	// until a message for it is parked or Heard is called.
	RetriesEnded bool
	// Gateway means that routes lead through the peer.
	Gateway bool
}

// UpToDate reports whether both sides have the current ping info of each other (discovery
// 3).
func (v *View) UpToDate(l Local) bool { return v != nil && v.State.upToDate(l, v.AckedSeq) }

// Disabled reports whether discovery is disabled for the peer, so that it has one NID or
// those of its configuration (discovery 3).
func (v *View) Disabled(l Local) bool { return v == nil || v.State.disabled(l) }

// MustWait reports whether a message to the peer must be parked (Machine.Park). It must not
// be called for an ACK or a REPLY, or for a message to 0@lo or to portal 0 (discovery 5.1).
// A nil View represents an unknown peer.
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
