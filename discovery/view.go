package discovery

import "github.com/lnetd/lnetd/lnet"

// PeerID names a peer within its Machine. It is never used again; 0 is none.
type PeerID uint64

// View is what is known of a peer at one moment. It never changes: any
// goroutine may read it, and a ViewChanged replaces it.
type View struct {
	// ID is the peer's.
	ID PeerID
	// Primary is the NID that the peer goes by.
	Primary lnet.NID
	// NIDs are all that it has, grouped by net. The primary NID's net comes first,
	// and that NID in it, unless the primary is locked and the peer names
	// another one itself. It may have none only when the peer is gone.
	NIDs []lnet.NID
	// State has the flags.
	State State
	// Seq is the last sequence number that the peer sent.
	Seq uint32
	// Told is the last sequence number of ours that the peer has acknowledged.
	Told uint32
	// Untold says that our last push did not reach the peer, and that it will be
	// tried again: messages go meanwhile.
	Untold bool
	// Left says that rounds with the peer have failed for so long that nothing is
	// tried any more, until a message for it is parked, or it is Heard.
	Left bool
	// Gateway says that routes lead through the peer.
	Gateway bool
}

// UpToDate tells whether both sides know of each other what there is to know
// (discovery 3).
func (v *View) UpToDate(l Local) bool { return v != nil && v.State.upToDate(l, v.Told) }

// Disabled tells whether the peer is used without discovery: by one NID, or as
// it was configured (discovery 3).
func (v *View) Disabled(l Local) bool { return v == nil || v.State.disabled(l) }

// MustWait tells whether a message to the peer has to be parked (Machine.Park).
// It is for messages that discovery is for: neither an ACK nor a REPLY, not to
// 0@lo, and not to portal 0 (discovery 5.1). A nil View is that of an unknown peer.
func (v *View) MustWait(l Local) bool {
	if l.Mode == Static {
		return false
	}
	return v == nil || v.State.mustWait(l, v.Told, v.Untold)
}

func (s State) mustWait(l Local, told uint32, untold bool) bool {
	if s.Has(RouterDiscovery) || untold && s.known() {
		return false
	}
	return !s.upToDate(l, told)
}
