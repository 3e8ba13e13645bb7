package discovery

import (
	"fmt"
	"strings"
)

// State is a set of flags that describe a peer. Commands show it as a number (discovery
// 3).
type State uint32

// The flags of a State.
const (
	// MultiRail means that messages may use all NIDs of the peer.
	MultiRail State = 1 << iota
	// NoDiscovery means that discovery is off on the peer or on this node.
	NoDiscovery
	// RouterEnabled means that the peer is a router.
	RouterEnabled
	// Configured means that an administrator created the peer.
	Configured
	// Discovered means that at least one round with the peer was successful.
	Discovered
	// Rediscover means that the last round with the peer failed.
	Rediscover
	// Discovering means that a round with the peer is in progress.
	Discovering
	// DataPresent means that a reply or push of the peer has arrived and is not processed
	// yet.
	DataPresent
	// NIDsUpToDate means that the peer's last ping info was merged, or is being merged.
	NIDsUpToDate
	// PingSent means that a ping is under way.
	PingSent
	// PushSent means that a push is under way.
	PushSent
	// PingFailed means that the last ping failed or its reply was unusable.
	PingFailed
	// PushFailed means that the last push failed.
	PushFailed
	// ForcePing requests a ping, whatever is known about the peer.
	ForcePing
	// ForcePush requests a push, whatever the peer has acknowledged.
	ForcePush
	// RouterNIForceDelete is never set. It reserves the number that kernels use.
	RouterNIForceDelete
	// RouterDiscovery means that the router checker started the round.
	RouterDiscovery
	// RouterDiscovered means that at least one check of the gateway has ended.
	RouterDiscovered
	// MarkDeletion means that the peer must be removed because discovery was turned off on
	// either side (discovery 6.9).
	MarkDeletion
	// MarkDeleted means that the peer was removed.
	MarkDeleted
	// LockPrimary means that the primary NID does not change, whatever the peer reports.
	LockPrimary
	// BadConfig means that this peer and another one claim the same NID, which is the locked
	// primary NID of one of them.
	BadConfig
)

var stateNames = [...]string{
	"MULTI_RAIL", "NO_DISCOVERY", "ROUTER_ENABLED", "CONFIGURED", "DISCOVERED", "REDISCOVER", "DISCOVERING",
	"DATA_PRESENT", "NIDS_UPTODATE", "PING_SENT", "PUSH_SENT", "PING_FAILED", "PUSH_FAILED", "FORCE_PING",
	"FORCE_PUSH", "RTR_NI_FORCE_DEL", "RTR_DISCOVERY", "RTR_DISCOVERED", "MARK_DELETION", "MARK_DELETED",
	"LOCK_PRIMARY", "BAD_CONFIG",
}

// Has reports whether one of the flags f is set.
func (s State) Has(f State) bool { return s&f != 0 }

// String returns the names of the flags, such as "MULTI_RAIL|DISCOVERED", or "0" if no flag
// is set.
func (s State) String() string {
	if s == 0 {
		return "0"
	}
	var names []string
	for i, name := range stateNames {
		if bit := State(1) << i; s&bit != 0 {
			names = append(names, name)
			s &^= bit
		}
	}
	if s != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(s)))
	}
	return strings.Join(names, "|")
}
