package api

import "github.com/lnetd/lnetd/lnet"

// NetAddition is the body of POST /v1/nets. It names NIs to bring up, all or none (lnetctl 4.2). Exactly one
// of Interfaces, NID and IP2Nets is set. Net is set only together with Interfaces.
type NetAddition struct {
	Net lnet.Net `json:"net,omitzero"`
	// Interfaces are interface names. Each one becomes an NI.
	Interfaces []string `json:"interfaces,omitempty"`
	NID        lnet.NID `json:"nid,omitzero"`
	// IP2Nets is a string in the syntax of the module parameter ip2nets, which selects interfaces.
	IP2Nets string `json:"ip2nets,omitempty"`
	// PeerTimeout is in seconds. For each of these four fields, nil means the driver's default.
	PeerTimeout       *int `json:"peer_timeout,omitempty"`
	PeerCredits       *int `json:"peer_credits,omitempty"`
	PeerBufferCredits *int `json:"peer_buffer_credits,omitempty"`
	Credits           *int `json:"credits,omitempty"`
	// LND are tunables of the driver by name.
	LND map[string]int64 `json:"lnd_tunables,omitempty"`
	// Proxy is the name of the proxies that may serve the NIs. With it, Net may be set without Interfaces: the
	// NI then gets the host's first address.
	Proxy string `json:"proxy,omitempty"`
	// CPT is a list of CPU partitions such as "[0,1]"; empty means all CPU partitions.
	CPT string `json:"cpt,omitempty"`
}

// NetAdded is the reply to POST /v1/nets.
type NetAdded struct {
	// Warnings describe likely mistakes of the operator, with a remedy.
	Warnings []string `json:"warnings,omitempty"`
}

// NetDeletion is the body of DELETE /v1/nets. It deletes the NIs on Net that use one of Interfaces or, if
// Interfaces is empty, all NIs on Net. If NID is set instead of Net, it deletes the NI with that NID
// (lnetctl 4.3).
type NetDeletion struct {
	Net        lnet.Net `json:"net,omitzero"`
	Interfaces []string `json:"interfaces,omitempty"`
	NID        lnet.NID `json:"nid,omitzero"`
}

// NITunables is the body of POST /v1/nets/tunables, which changes NIs that are up (lnetctl 4.5). It sets the
// tunables in LND for the NI with NID, for all NIs on Net, or for all NIs. LNDTimeout sets the LND timeout of
// all NIs on Net.
type NITunables struct {
	NID lnet.NID `json:"nid,omitzero"`
	All bool     `json:"all,omitempty"`
	Net lnet.Net `json:"net,omitzero"`
	// LNDTimeout is in seconds; 0 means the timeout that follows from the node's parameters.
	LNDTimeout *int `json:"lnd_timeout,omitempty"`
	// LND are tunables of the driver by name, which apply to connections made from now on. In JSON
	// they are further members of the body.
	LND map[string]int64 `json:"-"`
}

// niTunables is NITunables without its methods, so that encoding/json does not call these again.
type niTunables NITunables

// MarshalJSON adds the driver's tunables to the other members.
func (r NITunables) MarshalJSON() ([]byte, error) { return marshalWith(niTunables(r), r.LND) }

// UnmarshalJSON takes all unknown members as tunables of the driver.
func (r *NITunables) UnmarshalJSON(b []byte) (err error) {
	r.LND, err = unmarshalWith(b, (*niTunables)(r), "nid", "all", "net", "lnd_timeout")
	return err
}

// WaitingNI is an NI that is configured, but not up because its interface is not usable yet.
type WaitingNI struct {
	Net lnet.Net `json:"net"`
	// Interface and NID are the configured values, if any.
	Interface string   `json:"interface,omitempty"`
	NID       lnet.NID `json:"nid,omitzero"`
	// Cause is the reason why the NI cannot be brought up.
	Cause string `json:"cause"`
	// Place is the number of NIs before this one in the order of NIs, not counting 0@lo.
	Place int `json:"place"`
	// Tunables, LND, CPT and Proxy are the configured values.
	Tunables Tunables  `json:"tunables"`
	LND      []Tunable `json:"lnd_tunables,omitempty"`
	CPT      string    `json:"cpt"`
	Proxy    string    `json:"proxy,omitempty"`
}

// NI returns w as an NI that is down.
func (w *WaitingNI) NI() NI {
	ni := NI{NID: w.NID, Status: "down", Tunables: w.Tunables, LND: w.LND, DevCPT: -1, CPT: w.CPT, Proxy: w.Proxy}
	if w.Interface != "" {
		ni.Interfaces = []string{w.Interface}
	}
	return ni
}
