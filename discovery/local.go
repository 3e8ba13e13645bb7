package discovery

// Mode determines how this node uses the ping info of peers.
type Mode uint8

const (
	// On merges the ping info of peers.
	On Mode = iota
	// Off pings a peer once before the first message to it. Only two parts of the reply are
	// used: the status of NIDs, and whether the peer supports discovery.
	Off
	// Verify pings and pushes as On does, so peers see no difference, but does not change any
	// peer. It logs how the ping info of a peer differs from what is known. A peer is
	// Multi-Rail, and so receives pushes, only if it was configured as Multi-Rail.
	Verify
	// Static corresponds to the mode "off" of the Multi-Rail design: no peer is pinged, and a
	// peer that is not configured has only the NID that a message is for.
	Static
)

// passive reports whether the mode ignores the NIDs in ping info.
func (m Mode) passive() bool { return m == Off || m == Static }

// String returns "on", "off", "verify" or "static".
func (m Mode) String() string {
	switch m {
	case On:
		return "on"
	case Off:
		return "off"
	case Verify:
		return "verify"
	case Static:
		return "static"
	}
	return "unknown"
}

// Local is the part of this node's state with which a View is compared, to find out
// whether a peer is up to date. It is the same for all peers, so that a change needs no
// new Views. It is immutable; to change something, the node replaces it.
type Local struct {
	// Mode is the mode of this node.
	Mode Mode
	// Seq is the sequence number of the local ping info (discovery 4.4).
	Seq uint32
}

// disabled reports whether discovery is disabled for the peer (discovery 3).
func (s State) disabled(l Local) bool {
	return l.Mode.passive() || !s.Has(MultiRail) || s.Has(NoDiscovery)
}

// needsPing reports whether the peer must be pinged (discovery 3).
func (s State) needsPing() bool { return s.Has(ForcePing) || !s.Has(NIDsUpToDate) }

// needsPush reports whether a push must be sent to the peer (discovery 3). acked is the
// sequence number of the local ping info that the peer has.
func (s State) needsPush(l Local, acked uint32) bool {
	if !s.Has(MultiRail) || s.Has(MarkDeleted|PushSent) {
		return false
	}
	return s.Has(ForcePush) || !s.Has(NoDiscovery) && !l.Mode.passive() && acked < l.Seq
}

// upToDate reports whether discovery of the peer is complete (discovery 3). A peer with a
// push under way is not up to date, because another push may have to follow.
func (s State) upToDate(l Local, acked uint32) bool {
	const done = Discovered | NIDsUpToDate
	return s&done == done && !s.Has(Discovering|ForcePing|Rediscover) && (!s.Has(ForcePush) || s.Has(PushSent)) &&
		!s.needsPush(l, acked)
}

// known reports whether this node has the current NIDs of the peer.
func (s State) known() bool { return s.Has(NIDsUpToDate) && !s.Has(ForcePing|DataPresent|MarkDeletion) }
