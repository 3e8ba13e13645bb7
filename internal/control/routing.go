package control

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/node"
)

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

// Routing asks whether the daemon forwards, and with what.
func (c *Client) Routing(ctx context.Context) (Routing, error) {
	var r Routing
	err := c.get(ctx, "/v1/routing", nil, &r)
	return r, err
}

// SetRouting has the daemon forward or not, or changes its buffers.
func (c *Client) SetRouting(ctx context.Context, r RoutingChange) error {
	return c.post(ctx, "/v1/routing", r)
}

func (h *handlers) routing(context.Context, query) (Routing, *Fault) {
	r := h.Backend.Routing()
	r.CPTs = listed(r.CPTs)
	return r, nil
}

func (h *handlers) setRouting(ctx context.Context, r *RoutingChange) *Fault {
	b := Buffers{Tiny: -1, Small: -1, Large: -1}
	given := false
	for _, n := range []struct{ from, to *int }{{r.Tiny, &b.Tiny}, {r.Small, &b.Small}, {r.Large, &b.Large}} {
		if n.from == nil {
			continue
		}
		given = true
		if *n.from < -1 || *n.from > node.BuffersMax {
			return &Fault{
				Code: CodeParameterInvalid, Errno: -int(syscall.ERANGE),
				Text: "tiny, small and large must be >= 0", Remedy: fmt.Sprintf("0 is the default, %d the most", node.BuffersMax),
			}
		}
		*n.to = *n.from
	}
	if given == (r.Enabled != nil) {
		return invalidRequest("either enabled or numbers of buffers are needed", nil)
	}
	if given {
		if err := h.Backend.SetBuffers(ctx, b); err != nil {
			return worded("cannot configure buffers", CodeRoutingRefused, err)
		}
		return nil
	}
	err := h.Backend.SetRouting(ctx, *r.Enabled)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, node.ErrBusy):
		return worded("cannot configure routing", CodeRoutingRefused, err, wording{
			err: node.ErrBusy, code: CodeRoutingRefused,
			remedy: "the node is still stopping to forward: wait until lnetdctl routing show says enable: 0",
		})
	}
	return worded("cannot configure routing", CodeRoutingRefused, err)
}
