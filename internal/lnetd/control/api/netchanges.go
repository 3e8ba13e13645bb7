package api

import "github.com/lnetd/lnetd/lnet"

// NetAddition is the body of POST /v1/nets: NIs to bring up, all or none (lnetctl 4.2). Exactly one
// of Interfaces, NID and IP2Nets is set. Net is set only together with Interfaces.
type NetAddition struct {
	Net lnet.Net `json:"net,omitzero"`
	// Interfaces are interface names. Each one becomes an NI.
	Interfaces []string `json:"interfaces,omitempty"`
	NID        lnet.NID `json:"nid,omitzero"`
	// IP2Nets is a string in the syntax of the module parameter.
	IP2Nets string `json:"ip2nets,omitempty"`
	// PeerTimeout is in seconds. Fields that are nil take the driver's default.
	PeerTimeout       *int `json:"peer_timeout,omitempty"`
	PeerCredits       *int `json:"peer_credits,omitempty"`
	PeerBufferCredits *int `json:"peer_buffer_credits,omitempty"`
	Credits           *int `json:"credits,omitempty"`
	// LND are tunables of the driver by name.
	LND map[string]int64 `json:"lnd_tunables,omitempty"`
	// CPT is an expression such as "[0,1]"; empty means all CPU partitions.
	CPT string `json:"cpt,omitempty"`
}

// NetAdded is the reply to POST /v1/nets.
type NetAdded struct {
	// Warnings describe likely mistakes of the operator, with a remedy.
	Warnings []string `json:"warnings,omitempty"`
}

// NetDeletion is the body of DELETE /v1/nets. It deletes a net, some of its NIs, or the NI with a
// NID (lnetctl 4.3).
type NetDeletion struct {
	Net        lnet.Net `json:"net,omitzero"`
	Interfaces []string `json:"interfaces,omitempty"`
	NID        lnet.NID `json:"nid,omitzero"`
}

// NITunables is the body of POST /v1/nets/tunables, which changes NIs that are up (lnetctl 4.5). It
// sets tunables of one NI, of the NIs of a net, or of all, or the LND timeout of the NIs of a net.
type NITunables struct {
	NID lnet.NID `json:"nid,omitzero"`
	All bool     `json:"all,omitempty"`
	Net lnet.Net `json:"net,omitzero"`
	// LNDTimeout is in seconds; 0 restores the timeout derived from the node's parameters.
	LNDTimeout *int `json:"lnd_timeout,omitempty"`
	// LND are tunables of the driver by name, which apply to connections made from now on. In JSON
	// they are further members of the body.
	LND map[string]int64 `json:"-"`
}

// niTunables is NITunables without its methods.
type niTunables NITunables

// MarshalJSON adds the driver's tunables to the other members.
func (r NITunables) MarshalJSON() ([]byte, error) { return marshalWith(niTunables(r), r.LND) }

// UnmarshalJSON takes all unknown members as tunables of the driver.
func (r *NITunables) UnmarshalJSON(b []byte) (err error) {
	r.LND, err = unmarshalWith(b, (*niTunables)(r), "nid", "all", "net", "lnd_timeout")
	return err
}

// WaitingNI is a configured NI whose interface is not usable yet.
type WaitingNI struct {
	Net lnet.Net `json:"net"`
	// Interface and NID are the configured values, if any.
	Interface string   `json:"interface,omitempty"`
	NID       lnet.NID `json:"nid,omitzero"`
	// Cause is the reason why the NI cannot be brought up.
	Cause string `json:"cause"`
	// Place is the number of NIs before it, not counting 0@lo.
	Place int `json:"place"`
	// Tunables, LND and CPT are the configured values.
	Tunables Tunables  `json:"tunables"`
	LND      []Tunable `json:"lnd_tunables,omitempty"`
	CPT      string    `json:"cpt"`
}

// NI returns the waiting NI in the form of an NI that is down.
func (w *WaitingNI) NI() NI {
	ni := NI{NID: w.NID, Status: "down", Tunables: w.Tunables, LND: w.LND, DevCPT: -1, CPT: w.CPT}
	if w.Interface != "" {
		ni.Interfaces = []string{w.Interface}
	}
	return ni
}
