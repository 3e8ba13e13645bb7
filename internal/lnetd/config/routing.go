package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/node"
)

// Routing is whether a node is a router, and when it announces this to its peers.
type Routing uint8

// Values of Routing. RoutingOff means that the node is not a router.
const (
	RoutingOff Routing = iota
	// RoutingOn is "routing" with "enable: 1". The node forwards messages from the start, but
	// announces this to peers only after they had the time to discover the node (lnetctl 4.9).
	RoutingOn
	// RoutingAtOnce is "forwarding: enabled". The node forwards messages and announces this from
	// the start.
	RoutingAtOnce
)

// Values of "enable" in an export. They are routing states (lnetctl 4.9).
const (
	exportedDisabled = int(node.RoutingDisabled)
	exportedStopping = int(node.RoutingStopping)
	exportedLast     = int(node.RoutingStarting)
)

// readRouting returns the values of "enable" in the section "routing". There can be several, because the
// section is a list in a full export. Items of the list that describe router buffers are ignored.
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

// applyRouting stores the values of "routing" and "buffers" in c. It must be called after applyLnetd,
// because "routing" takes precedence over "forwarding", which stands for a module parameter.
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
	if len(f.buffers) > 0 { // a pool that the section omits gets its default
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
		// -1 means that the value does not change.
		if n, ok := at.number(-1, node.BuffersMax); ok {
			if n >= 0 {
				*into = n
			}
		}
	}
}

// buffers returns pointers to the numbers of router buffers in s, by their keys in "buffers".
func (s *State) buffers() map[string]*int {
	return map[string]*int{"tiny": &s.Buffers.Tiny, "small": &s.Buffers.Small, "large": &s.Buffers.Large}
}
