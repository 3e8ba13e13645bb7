package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// PeerNIDsMax bounds the NIDs that one request names beside the primary one.
const PeerNIDsMax = 128

// Peers is the reply to GET /v1/peers.
type Peers struct {
	Peers []Peer `json:"peers"`
	// Next, in a part of the answer, says where the next one begins; empty: this
	// is the last.
	Next string `json:"next,omitempty"`
}

// Peer is a node that this one knows of.
type Peer struct {
	// ID grows with the peers' youth; only the daemon knows it.
	ID        uint64   `json:"-"`
	Primary   lnet.NID `json:"primary_nid"`
	MultiRail bool     `json:"multi_rail"`
	// State is the word of flags.
	State uint32 `json:"state"`
	// Seq is the sequence number that the peer told last, Told the one of ours
	// that it was told.
	Seq     uint32 `json:"seq"`
	Told    uint32 `json:"told"`
	Gateway bool   `json:"gateway"`
	// Unanswered reports that no message has ever come from the peer, that no program's
	// message has been sent to it, and that it was not configured. A backup leaves it out, and lnetd removes it after a while.
	Unanswered bool `json:"unanswered,omitempty"`
	// NIs are its NIDs by net, the primary one's net first.
	NIs []PeerNI `json:"nis"`
}

// PeerNI is all that "peer show -v 4" prints about one NID (lnetctl 5.4). The
// detail of a field is the level from which on that is printed.
type PeerNI struct {
	NID lnet.NID `json:"nid"`
	// State is "up" or "down" where that is looked after, else "NA".
	State string `json:"state"`
	// Trouble is why other NIDs of the peer are taken first, if so: "not answering
	// since" a time, or "link down".
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

// Credits bound the messages under way to a peer NI. Available is below 0 by
// the number of those that wait; Min is the lowest that it ever was.
type Credits struct {
	Max       int `json:"max"`
	Available int `json:"available"`
	Min       int `json:"min"`
}

// PeerHealthStats are a peer NI's health and what lowered it.
type PeerHealthStats struct {
	Value           int    `json:"health_value"` // 0 to 1000
	Dropped         uint64 `json:"dropped"`
	Timeouts        uint64 `json:"timeout"`
	Errors          uint64 `json:"error"`
	NetworkTimeouts uint64 `json:"network_timeout"`
	PingCount       uint64 `json:"ping_count"`
	NextPing        int64  `json:"next_ping"` // seconds since boot, 0: none due
}

// PeerAddition is the body of POST /v1/peers: a peer, or more NIDs for one.
type PeerAddition struct {
	Primary lnet.NID   `json:"primary_nid"`
	NIDs    []lnet.NID `json:"nids,omitempty"`
	// SingleRail: the peer is not Multi-Rail.
	SingleRail  bool `json:"single_rail,omitempty"`
	LockPrimary bool `json:"lock_primary,omitempty"`
}

// PeerDeletion is the body of DELETE /v1/peers: NIDs of a peer, or, if there are
// none or the primary one is among them, the peer.
type PeerDeletion struct {
	Primary lnet.NID   `json:"primary_nid"`
	NIDs    []lnet.NID `json:"nids,omitempty"`
	// Force deletes a peer whose primary NID is locked.
	Force bool `json:"force,omitempty"`
}

// PeersDetail is the detail in which all is told of peers.
const PeersDetail = 4

// FirstPage is where the list of peers begins.
const FirstPage = "0"

// PeerState is the body of POST /v1/peers/state, for tests: the state word of the peer
// that has the NID, or of all, in the bits that lnetctl prints at "peer show -v 3"
// (lnetctl 4.11).
type PeerState struct {
	NID   lnet.NID `json:"nid,omitzero"`
	All   bool     `json:"all,omitempty"`
	State uint32   `json:"state"`
}

// Recovery is the reply to GET /v1/recovery: the NIDs that are pinged until they are
// well, of local NIs and of peers.
type Recovery struct {
	Local []lnet.NID `json:"local"`
	Peers []lnet.NID `json:"peers"`
}

// CPTs is the reply to GET /v1/cpts: the CPU partition of each NID, in the order of
// asking.
type CPTs struct {
	CPTs []CPTOfNID `json:"cpts"`
}

// CPTOfNID is the CPU partition that messages with a NID belong to.
type CPTOfNID struct {
	NID lnet.NID `json:"nid"`
	CPT int      `json:"cpt"`
}
