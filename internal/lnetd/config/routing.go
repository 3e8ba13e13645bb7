package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/node"
)

// Routing is whether and how a node becomes a router.
type Routing uint8

// Ways of becoming a router.
const (
	RoutingOff Routing = iota
	// RoutingOn is "routing" with "enable: 1". The node forwards from the start, and announces it
	// after peers had the time to discover it (lnetctl 4.9).
	RoutingOn
	// RoutingAtOnce is "forwarding: enabled". The node announces it from the start.
	RoutingAtOnce
)

// Values of "enable" in an export: the routing states (lnetctl 4.9).
const (
	exportedDisabled = int(node.RoutingDisabled)
	exportedStopping = int(node.RoutingStopping)
	exportedLast     = int(node.RoutingStarting)
)

// readRouting returns the values of "enable" in "routing". There can be several, because a full
// export has a list there. Its entries about buffers are skipped.
func readRouting(at place) []place {
	parts := []place{at}
	if at.empty() || at.node.Kind == yaml.SequenceNode {
		parts = at.optionalItems()
	}
	var enable []place
	for _, part := range parts {
		for _, m := range part.members(false) {
			if m.key == "enable" {
				enable = append(enable, m.value)
			}
		}
	}
	return enable
}

func readBuffers(at place) map[string]place {
	buffers := map[string]place{}
	for _, m := range at.optionalMembers() {
		buffers[m.key] = m.value
	}
	return buffers
}

// applyRouting stores "routing" and "buffers". They take precedence over "forwarding", as an
// import comes after the module's parameters.
func (c *Config) applyRouting(f *file) {
	for _, at := range f.routing {
		state, ok := at.number(exportedDisabled, exportedLast)
		switch {
		case !ok:
		case state == exportedDisabled || state == exportedStopping:
			c.Routing = RoutingOff
		case c.Routing == RoutingOff:
			c.Routing = RoutingOn
		}
	}
	if len(f.buffers) > 0 { // a pool that is not mentioned gets its default
		for key, into := range c.buffers() {
			if _, ok := f.buffers[key]; !ok {
				*into = 0
			}
		}
	}
	for key, at := range f.buffers {
		into := c.buffers()[key]
		if into == nil {
			continue
		}
		// -1 leaves the value.
		if n, ok := at.number(-1, node.BuffersMax); ok {
			if n >= 0 {
				*into = n
			}
		}
	}
}

// buffers returns the numbers of router buffers by key.
func (s *State) buffers() map[string]*int {
	return map[string]*int{"tiny": &s.Buffers.Tiny, "small": &s.Buffers.Small, "large": &s.Buffers.Large}
}
