package discovery

import (
	"fmt"
	"strings"
)

// State is the word of flags that a peer has; its number is what commands show
// (discovery 3).
type State uint32

// The flags of a State.
const (
	// MultiRail says that the peer's NIDs serve as one.
	MultiRail State = 1 << iota
	// NoDiscovery says that the peer does not discover, or we do not.
	NoDiscovery
	// RouterEnabled says that the peer forwards.
	RouterEnabled
	// Configured says that an administrator made the peer.
	Configured
	// Discovered says that a round ended well once.
	Discovered
	// Rediscover says that the last round failed.
	Rediscover
	// Discovering says that a round runs.
	Discovering
	// DataPresent says that a reply or push waits to be looked at.
	DataPresent
	// NIDsUpToDate says that what the peer told last is merged.
	NIDsUpToDate
	// PingSent says that a ping is under way.
	PingSent
	// PushSent says that a push is under way.
	PushSent
	// PingFailed says that the last ping failed or its reply is of no use.
	PingFailed
	// PushFailed says that the last push failed.
	PushFailed
	// ForcePing wants a ping whatever is known.
	ForcePing
	// ForcePush wants a push whatever the peer was told.
	ForcePush
	// RouterNIForceDelete stands here for its number alone; it is never set.
	RouterNIForceDelete
	// RouterDiscovery says that the router checker started the round.
	RouterDiscovery
	// RouterDiscovered says that the first check of a gateway has ended.
	RouterDiscovered
	// MarkDeletion says that the peer must go, since one side has turned
	// discovery off (discovery 6.9).
	MarkDeletion
	// MarkDeleted says that the peer is gone.
	MarkDeleted
	// LockPrimary says that the primary NID stays, whatever the peer says.
	LockPrimary
	// BadConfig says that two locked peers claim one NID.
	BadConfig
)

var stateNames = [...]string{
	"MULTI_RAIL", "NO_DISCOVERY", "ROUTER_ENABLED", "CONFIGURED", "DISCOVERED", "REDISCOVER", "DISCOVERING",
	"DATA_PRESENT", "NIDS_UPTODATE", "PING_SENT", "PUSH_SENT", "PING_FAILED", "PUSH_FAILED", "FORCE_PING",
	"FORCE_PUSH", "RTR_NI_FORCE_DEL", "RTR_DISCOVERY", "RTR_DISCOVERED", "MARK_DELETION", "MARK_DELETED",
	"LOCK_PRIMARY", "BAD_CONFIG",
}

// Has tells whether one of the flags f is set.
func (s State) Has(f State) bool { return s&f != 0 }

// String is like "MULTI_RAIL|DISCOVERED", and "0" if no flag is set.
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
