package api

// RoutingState is whether a node is a router, or is about to become or to stop being one.
type RoutingState uint8

// The states (lnetctl 4.9).
const (
	RoutingDisabled RoutingState = iota
	RoutingEnabled
	RoutingStopping
	RoutingStarting
)

// Routing is the reply to GET /v1/routing.
type Routing struct {
	State RoutingState `json:"state"`
	// Ever reports whether the node has been a router since it started. If not, it has no router
	// buffers.
	Ever bool `json:"ever"`
	// CPTs are the router buffers of each CPU partition.
	CPTs []Pools `json:"cpts"`
}

// Pools are the router buffers of a CPU partition.
type Pools struct {
	Tiny  Pool `json:"tiny"`
	Small Pool `json:"small"`
	Large Pool `json:"large"`
}

// Pool are the router buffers of one size.
type Pool struct {
	Pages      int `json:"npages"`
	Buffers    int `json:"nbuffers"`
	Credits    int `json:"credits"`    // number of free buffers; if negative, minus the number of messages that wait for one
	MinCredits int `json:"mincredits"` // the lowest value of Credits so far
}

// Buffers are the numbers of router buffers of all CPU partitions together.
type Buffers struct {
	Tiny  int `json:"tiny"`
	Small int `json:"small"`
	Large int `json:"large"`
}

// Buffers returns the total numbers of router buffers.
func (r *Routing) Buffers() Buffers {
	var b Buffers
	for _, p := range r.CPTs {
		b.Tiny += p.Tiny.Buffers
		b.Small += p.Small.Buffers
		b.Large += p.Large.Buffers
	}
	return b
}

// RoutingChange is the body of POST /v1/routing. It sets either Enabled or numbers of router buffers. A number
// that is nil or -1 does not change; 0 restores the default.
type RoutingChange struct {
	Enabled *bool `json:"enabled,omitempty"`
	Tiny    *int  `json:"tiny,omitempty"`
	Small   *int  `json:"small,omitempty"`
	Large   *int  `json:"large,omitempty"`
}
