package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// PeerNIDsMax is the maximum number of NIDs in a request about one peer, not counting the primary NID.
const PeerNIDsMax = 128

// Peers is the reply to GET /v1/peers.
type Peers struct {
	Peers []Peer `json:"peers"`
	// Next is the name of the next page of peers, for the next request. It is empty on the last page.
	Next string `json:"next,omitempty"`
}

// Peer is the data that lnetd has about another node.
type Peer struct {
	// ID is larger for peers that were added later. It is not part of the JSON.
	ID        uint64   `json:"-"`
	Primary   lnet.NID `json:"primary_nid"`
	MultiRail bool     `json:"multi_rail"`
	// State holds flags of the peer, as "peer show -v 3" prints them.
	State uint32 `json:"state"`
	// Seq is the latest sequence number received from the peer. Told is the latest sequence number
	// of this node that was sent to it.
	Seq     uint32 `json:"seq"`
	Told    uint32 `json:"told"`
	Gateway bool   `json:"gateway"`
	// Unanswered is true if no message has ever arrived from the peer, no program's message
	// has been sent to it, and it was not configured. A backup omits such a peer, and lnetd
	// removes it after a while.
	Unanswered bool `json:"unanswered,omitempty"`
	// Unused is true if no message has ever arrived from the peer, no program's message has
	// been sent to it, and it has not been discovered.
	Unused bool `json:"unused,omitempty"`
	// NIs are the peer's NIDs, grouped by net. The net of the primary NID comes first.
	NIs []PeerNI `json:"nis"`
}

// PeerNI holds everything that "peer show -v 4" prints about one NID (lnetctl 5.4). The detail tag
// of a field is the lowest verbosity that prints it.
type PeerNI struct {
	NID lnet.NID `json:"nid"`
	// State is "up" or "down" if this node monitors whether the NID is alive, otherwise "NA".
	State string `json:"state"`
	// Trouble is the reason why other NIDs of the peer are preferred: "not answering since" a time,
	// or "link down". It is empty if there is no reason.
	Trouble       string          `json:"trouble,omitempty" detail:"1"`
	Credits       Credits         `json:"tx_credits" detail:"1"`
	RouterCredits Credits         `json:"router_credits" detail:"1"`
	QueuedBytes   int64           `json:"queued_bytes" detail:"1"`
	Refs          int             `json:"refcount" detail:"1"`
	Statistics    Statistics      `json:"statistics" detail:"1"`
	UDSP          UDSPInfo        `json:"udsp_info" detail:"4"`
	Sent          MessageCounts   `json:"sent_stats" detail:"2"`
	Received      MessageCounts   `json:"received_stats" detail:"2"`
	Dropped       MessageCounts   `json:"dropped_stats" detail:"2"`
	Health        PeerHealthStats `json:"health_stats" detail:"2"`
}

// Credits limit the number of messages in flight to a peer NI. Available is the number of free credits or, if
// it is negative, minus the number of messages that wait for one. Min is the lowest value of Available so
// far.
type Credits struct {
	Max       int `json:"max"`
	Available int `json:"available"`
	Min       int `json:"min"`
}

// PeerHealthStats holds the health of a peer NI, and counters of the events that reduced it.
type PeerHealthStats struct {
	Value           int    `json:"health_value"` // 0 to 1000
	Dropped         uint64 `json:"dropped"`
	Timeouts        uint64 `json:"timeout"`
	Errors          uint64 `json:"error"`
	NetworkTimeouts uint64 `json:"network_timeout"`
	PingCount       uint64 `json:"ping_count"`
	NextPing        int64  `json:"next_ping"` // seconds since boot, 0 if no ping is due
}

// PeerAddition is the body of POST /v1/peers. It adds a peer or, if the peer exists, NIDs of the peer.
type PeerAddition struct {
	Primary lnet.NID   `json:"primary_nid"`
	NIDs    []lnet.NID `json:"nids,omitempty"`
	// SingleRail is set if the peer is not Multi-Rail.
	SingleRail  bool `json:"single_rail,omitempty"`
	LockPrimary bool `json:"lock_primary,omitempty"`
}

// PeerDeletion is the body of DELETE /v1/peers. It deletes NIDs of a peer. If NIDs is empty or contains the
// primary NID, it deletes the whole peer.
type PeerDeletion struct {
	Primary lnet.NID   `json:"primary_nid"`
	NIDs    []lnet.NID `json:"nids,omitempty"`
	// Force permits to delete a peer whose primary NID is locked.
	Force bool `json:"force,omitempty"`
}

// PeersDetail is the level of detail with which replies contain all fields of peers.
const PeersDetail = 4

// FirstPage is the name of the first page of peers.
const FirstPage = "0"

// PeerState is the body of POST /v1/peers/state, for tests. It sets the state word, as printed by
// "peer show -v 3", of the peer that has the NID, or of all peers (lnetctl 4.11).
type PeerState struct {
	NID   lnet.NID `json:"nid,omitzero"`
	All   bool     `json:"all,omitempty"`
	State uint32   `json:"state"`
}

// Recovery is the reply to GET /v1/recovery. It holds the NIDs of local NIs and of peer NIs that are in
// recovery: their health is reduced, and they are pinged until it is full.
type Recovery struct {
	Local []lnet.NID `json:"local"`
	Peers []lnet.NID `json:"peers"`
}

// CPTs is the reply to GET /v1/cpts: the CPU partition of each NID, in the order of the request.
type CPTs struct {
	CPTs []CPTOfNID `json:"cpts"`
}

// CPTOfNID is the CPU partition that handles messages with a NID.
type CPTOfNID struct {
	NID lnet.NID `json:"nid"`
	CPT int      `json:"cpt"`
}
