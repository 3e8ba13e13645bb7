package api

// RoutingState is how far a node is with forwarding, by its number.
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
	// Ever tells whether the node has forwarded since it started; else it has
	// no buffers yet.
	Ever bool `json:"ever"`
	// CPTs are the buffers of each CPU partition.
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
	Credits    int `json:"credits"`    // below 0 by the number of messages that wait
	MinCredits int `json:"mincredits"` // the lowest that they ever were
}

// Buffers are numbers of router buffers over all CPU partitions.
type Buffers struct {
	Tiny  int `json:"tiny"`
	Small int `json:"small"`
	Large int `json:"large"`
}

// Buffers sums the buffers up.
func (r *Routing) Buffers() Buffers {
	var b Buffers
	for _, p := range r.CPTs {
		b.Tiny += p.Tiny.Buffers
		b.Small += p.Small.Buffers
		b.Large += p.Large.Buffers
	}
	return b
}

// RoutingChange is the body of POST /v1/routing: either Enabled or numbers of
// buffers, of which those that are not given stay. 0 is the default, -1 is as
// it is.
type RoutingChange struct {
	Enabled *bool `json:"enabled,omitempty"`
	Tiny    *int  `json:"tiny,omitempty"`
	Small   *int  `json:"small,omitempty"`
	Large   *int  `json:"large,omitempty"`
}
