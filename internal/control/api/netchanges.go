package api

import "github.com/lnetd/lnetd/lnet"

// NetAddition is the body of POST /v1/nets: NIs to bring up, all of them or none
// (lnetctl 4.2). Exactly one of Interfaces, NID and IP2Nets is given; Net with the first
// alone.
type NetAddition struct {
	Net lnet.Net `json:"net,omitzero"`
	// Interfaces are names, each of which becomes an NI.
	Interfaces []string `json:"interfaces,omitempty"`
	NID        lnet.NID `json:"nid,omitzero"`
	// IP2Nets is a string of the module parameter's form.
	IP2Nets string `json:"ip2nets,omitempty"`
	// PeerTimeout is in seconds. What is nil takes the driver's default.
	PeerTimeout       *int `json:"peer_timeout,omitempty"`
	PeerCredits       *int `json:"peer_credits,omitempty"`
	PeerBufferCredits *int `json:"peer_buffer_credits,omitempty"`
	Credits           *int `json:"credits,omitempty"`
	// LND are tunables of the driver by name: "conns_per_peer", "tos".
	LND map[string]int64 `json:"lnd_tunables,omitempty"`
	// CPT is an expression, "[0,1]"; empty: all.
	CPT string `json:"cpt,omitempty"`
}

// NetAdded is the reply to POST /v1/nets.
type NetAdded struct {
	// Warnings say what the operator may not have meant, and what would be right.
	Warnings []string `json:"warnings,omitempty"`
}

// NetDeletion is the body of DELETE /v1/nets: a net, some of its NIs, or the NI with a
// NID (lnetctl 4.3).
type NetDeletion struct {
	Net        lnet.Net `json:"net,omitzero"`
	Interfaces []string `json:"interfaces,omitempty"`
	NID        lnet.NID `json:"nid,omitzero"`
}

// NITunables is the body of POST /v1/nets/tunables, which changes NIs that are up
// (lnetctl 4.5): the connections per peer of one NI or of all, or the LND timeout of the
// NIs of a net.
type NITunables struct {
	NID lnet.NID `json:"nid,omitzero"`
	All bool     `json:"all,omitempty"`
	// ConnsPerPeer, 0 to 127, is that of connections made from now on; 0 has the
	// driver choose.
	ConnsPerPeer *int     `json:"conns_per_peer,omitempty"`
	Net          lnet.Net `json:"net,omitzero"`
	// LNDTimeout is in seconds; 0: the one that follows from the node's parameters.
	LNDTimeout *int `json:"lnd_timeout,omitempty"`
}

// WaitingNI is an NI that is configured, and whose interface cannot be used yet.
type WaitingNI struct {
	Net lnet.Net `json:"net"`
	// Interface names the interface, NID the NID, as far as they were configured.
	Interface string   `json:"interface,omitempty"`
	NID       lnet.NID `json:"nid,omitzero"`
	// Cause says why it cannot be brought up.
	Cause string `json:"cause"`
	// Place is how many NIs stand before it, without 0@lo.
	Place int `json:"place"`
	// Tunables, those of the driver and the CPU partitions are as they were configured.
	Tunables Tunables  `json:"tunables"`
	LND      []Tunable `json:"lnd_tunables,omitempty"`
	CPT      string    `json:"cpt"`
}

// NI is what there is to say of a WaitingNI among those that are up.
func (w *WaitingNI) NI() NI {
	ni := NI{NID: w.NID, Status: "down", Tunables: w.Tunables, LND: w.LND, DevCPT: -1, CPT: w.CPT}
	if w.Interface != "" {
		ni.Interfaces = []string{w.Interface}
	}
	return ni
}
