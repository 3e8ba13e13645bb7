package topology

import (
	"cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// State is the condition of a part of a Picture.
type State string

// The states, from the best to the worst.
const (
	// OK means that no problem is known.
	OK State = "ok"
	// Waiting means that an NI waits for its network interface.
	Waiting State = "waiting"
	// Degraded means that the part works, and that something of it has failed.
	Degraded State = "degraded"
	// Down means that the part cannot be used.
	Down State = "down"
)

// states holds all states, from the best to the worst.
var states = [...]State{OK, Waiting, Degraded, Down}

// severity returns the place of s in states.
func (s State) severity() int {
	for k, o := range states {
		if o == s {
			return k
		}
	}
	return 0
}

// Picture is what a node knows of its LNet. Lists are in the order of the control interface, except Peers, which
// begins with those that have problems.
type Picture struct {
	// Node is the node's first NID except 0@lo. It is zero if the node has no other NID.
	Node lnet.NID `json:"node,omitzero"`
	// Router reports whether the node forwards messages.
	Router bool `json:"router"`
	// Nets have the NIs that the picture shows, and OtherNIs are the numbers of those that it does not show.
	Nets     []Net    `json:"nets"`
	OtherNIs NICounts `json:"other_nis"`
	// Peers are the peers that the picture shows, and OtherPeers the numbers of those that it does not show.
	Peers      []Peer `json:"peers"`
	OtherPeers Counts `json:"other_peers"`
	// RemoteNets are nets to which routes lead. OtherRemoteNets is the number of those that are not shown.
	RemoteNets      []RemoteNet `json:"remote_nets"`
	OtherRemoteNets int         `json:"other_remote_nets"`
}

// Net is a net of the node, with the node's NIs on it.
type Net struct {
	Net   lnet.Net `json:"net"`
	State State    `json:"state"`
	NIs   []NI     `json:"nis"`
}

// NICounts are numbers of NIs except 0@lo. Up is the number of those whose state is OK or Degraded.
type NICounts struct {
	All int `json:"all"`
	Up  int `json:"up"`
}

func (c *NICounts) add(s State) {
	c.All++
	if s == OK || s == Degraded {
		c.Up++
	}
}

// NI is a local NI.
type NI struct {
	// Name is the NID, or NET(INTERFACE) if the NI has no NID yet.
	Name string `json:"name"`
	// Interface is the name of the network interface, or empty.
	Interface string `json:"interface,omitempty"`
	State     State  `json:"state"`
	// Detail is the reason for the state. It is empty if the state is OK.
	Detail string `json:"detail,omitempty"`
}

// Peer is another node.
type Peer struct {
	Primary lnet.NID `json:"primary_nid"`
	// State takes account of the rails that are on nets of the node, or of all rails if there are no such rails.
	State   State `json:"state"`
	Gateway bool  `json:"gateway"`
	// Messages is the number of messages that were exchanged with the peer.
	Messages uint64 `json:"messages"`
	Rails    []Rail `json:"rails"`
	// OtherRails is the number of rails that are not shown.
	OtherRails int `json:"other_rails,omitempty"`
}

// Rail is a NID of a peer.
type Rail struct {
	NID    lnet.NID `json:"nid"`
	State  State    `json:"state"`
	Detail string   `json:"detail,omitempty"`
	// Health is 0 to 1000.
	Health int `json:"health"`
	// Sent and Received count messages. QueuedBytes is the size of the messages that are being sent or wait.
	Sent        uint64 `json:"sent"`
	Received    uint64 `json:"received"`
	QueuedBytes int64  `json:"queued_bytes"`
}

// Counts are numbers of peers.
type Counts struct {
	All      int `json:"all"`
	OK       int `json:"ok"`
	Degraded int `json:"degraded"`
	Down     int `json:"down"`
}

func (c *Counts) add(s State, n int) {
	c.All += n
	switch s {
	case Degraded:
		c.Degraded += n
	case Down:
		c.Down += n
	default:
		c.OK += n
	}
}

// RemoteNet is a net that the node reaches through gateways.
type RemoteNet struct {
	Net    lnet.Net `json:"net"`
	State  State    `json:"state"`
	Routes []Route  `json:"routes"`
	// OtherRoutes is the number of routes that are not shown.
	OtherRoutes int `json:"other_routes,omitempty"`
}

// Route is a route to a RemoteNet.
type Route struct {
	Gateway lnet.NID `json:"gateway"`
	State   State    `json:"state"`
	// Hops is 0 if it is not configured.
	Hops     uint32 `json:"hops"`
	Priority uint32 `json:"priority"`
}

// AllPeers returns the numbers of all peers of the node, shown or not.
func (p *Picture) AllPeers() Counts {
	all := p.OtherPeers
	for k := range p.Peers {
		all.add(p.Peers[k].State, 1)
	}
	return all
}

// AllNIs returns the numbers of all NIs of the node except 0@lo, shown or not.
func (p *Picture) AllNIs() NICounts {
	all := p.OtherNIs
	for k := range p.Nets {
		for i := range p.Nets[k].NIs {
			all.add(p.Nets[k].NIs[i].State)
		}
	}
	return all
}

// summary returns the state of a whole of which some parts may have failed.
func summary(parts []State) State {
	bad, worst := 0, OK
	for _, s := range parts {
		if s != OK {
			bad++
		}
		if s.severity() > worst.severity() {
			worst = s
		}
	}
	switch {
	case bad == 0:
		return OK
	case bad < len(parts):
		return Degraded
	}
	for _, s := range parts {
		if s == Degraded { // it still works
			return Degraded
		}
	}
	return worst
}

func stateOfNI(n *api.NI) (State, string) {
	switch {
	case n.Status != "up":
		return Down, clean(cmp.Or(n.Reason, "down"))
	case n.Health.Value < api.MaxHealth:
		return Degraded, health(n.Health.Value)
	}
	return OK, ""
}

// stateOfRail returns the state of a NID of a peer, and the reason if it is not OK.
func stateOfRail(n *api.PeerNI) (State, string) {
	switch {
	case n.State == "down":
		return Down, clean(cmp.Or(n.Trouble, "down"))
	case n.Trouble != "":
		return Down, clean(n.Trouble)
	case n.Health.Value == 0:
		return Down, health(0)
	case n.Health.Value < api.MaxHealth:
		return Degraded, health(n.Health.Value)
	}
	return OK, ""
}
