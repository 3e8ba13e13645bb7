package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/node"
)

// Routing says whether and how a node becomes a router.
type Routing uint8

// How a node becomes a router.
const (
	RoutingOff Routing = iota
	// RoutingOn: "routing" with "enable: 1". The node forwards from the start and
	// lets the others know when all had the time to learn of it (lnetctl 4.9).
	RoutingOn
	// RoutingAtOnce: "forwarding: enabled". The others know from the start.
	RoutingAtOnce
)

// Values of "enable" in an export: the states of a router (lnetctl 4.9).
const (
	exportedDisabled = int(node.RoutingDisabled)
	exportedStopping = int(node.RoutingStopping)
	exportedLast     = int(node.RoutingStarting)
)

// readRouting returns the values of "enable" in "routing": a mapping, or as a full
// export has it a list with the state of the buffers.
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

// applyRouting takes "routing" and "buffers". What stands there comes after
// "forwarding", as an import comes after the module's parameters.
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
	if len(f.buffers) > 0 { // a pool that is not named gets its default
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
		// -1 is "as it is".
		if n, ok := at.number(-1, node.BuffersMax); ok {
			if n >= 0 {
				*into = n
			}
		}
	}
}

// buffers are the numbers of router buffers by key.
func (s *State) buffers() map[string]*int {
	return map[string]*int{"tiny": &s.Buffers.Tiny, "small": &s.Buffers.Small, "large": &s.Buffers.Large}
}
