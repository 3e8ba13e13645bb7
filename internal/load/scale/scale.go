// Package scale has the figures of measurements and simulations with growing numbers of nodes, and draws
// them.
package scale

// Simulation is what events cost in a simulation of whole nodes.
type Simulation struct {
	Nodes   int `json:"nodes"`   // clients
	Servers int `json:"servers"` // each for as many of them
	// NodeBytes is the memory of an idle client, and PeerBytes what a client and the server keep of each
	// other, both together.
	NodeBytes float64 `json:"node_bytes"`
	PeerBytes float64 `json:"peer_bytes"`
	Events    []Event `json:"events"`
}

// Event is what an event costs for each client.
type Event struct {
	Name string `json:"name"`
	// Messages is the number of messages that any node received, and Busiest the number of those that servers
	// and gateways received.
	Messages float64 `json:"messages"`
	Busiest  float64 `json:"busiest"`
	CPU      float64 `json:"cpu_us"` // processor time of all nodes, in microseconds
	// Allocs is the number of objects that all nodes allocated. It is nearly the same in each run, unlike CPU.
	Allocs float64 `json:"allocs,omitempty"`
	// Quiet is the simulated time in seconds, not divided by the number of clients, until the event is over.
	Quiet float64 `json:"quiet_s"`
}

// Names of events.
const (
	ColdStart   = "cold start"
	ChangedNID  = "a NID of the server changes"
	LostRail    = "a rail of the server is lost"
	DeadGateway = "a gateway dies"
)
