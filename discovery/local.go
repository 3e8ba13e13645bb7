package discovery

// Mode says what this node does with what peers tell.
type Mode uint8

const (
	// On merges what peers tell.
	On Mode = iota
	// Off pings a peer once before the first message to it, and takes nothing
	// from the answer but the status of NIDs and whether the peer discovers.
	Off
	// Verify runs the protocol, and is On to others, but changes no peer: it
	// says in a Log where a peer's word differs from what is known. A peer is
	// Multi-Rail, and so pushed to, only if it was configured.
	Verify
	// Static is Off as the Multi-Rail design has it: no peer is pinged, and who
	// is not configured is used by the NID that is asked for.
	Static
)

// passive says that peers are not merged.
func (m Mode) passive() bool { return m == Off || m == Static }

// String is "on", "off", "verify" or "static".
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

// Local is what a View is judged by: it is the same for all peers, so that a
// change of it makes no new Views. It never changes; the node replaces it.
type Local struct {
	// Mode is this node's.
	Mode Mode
	// Seq is the sequence number of our ping info (discovery 4.4).
	Seq uint32
}

// disabled: discovery 3, "discovery disabled for a peer".
func (s State) disabled(l Local) bool {
	return l.Mode.passive() || !s.Has(MultiRail) || s.Has(NoDiscovery)
}

// needsPing: discovery 3.
func (s State) needsPing() bool { return s.Has(ForcePing) || !s.Has(NIDsUpToDate) }

// needsPush: discovery 3. told is the sequence number that the peer has of us.
func (s State) needsPush(l Local, told uint32) bool {
	if !s.Has(MultiRail) || s.Has(MarkDeleted|PushSent) {
		return false
	}
	return s.Has(ForcePush) || !s.Has(NoDiscovery) && !l.Mode.passive() && told < l.Seq
}

// upToDate: discovery 3. A push that is under way need not be the last.
func (s State) upToDate(l Local, told uint32) bool {
	const done = Discovered | NIDsUpToDate
	return s&done == done && !s.Has(Discovering|ForcePing|Rediscover) && (!s.Has(ForcePush) || s.Has(PushSent)) &&
		!s.needsPush(l, told)
}

// known says that all is known of the peer that there is to know.
func (s State) known() bool { return s.Has(NIDsUpToDate) && !s.Has(ForcePing|DataPresent|MarkDeletion) }
