package config

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Step is a step from one State to another. Its dynamic type is one of Change[NI], Change[Order],
// Change[Peer], Change[Route], Change[Policies], Change[Parameters], Change[node.Buffers],
// Change[Routing] and DriverChange. The caller applies a step according to its type; a step
// itself does nothing.
type Step interface {
	// Inverse returns the step that reverts this one.
	Inverse() Step
	// Commands returns the lnetdctl commands for the step, in order, without the program's name:
	// "net add --net tcp1 --if eth1".
	Commands() []string
	// String describes the step for an operator: "add NI tcp(eth0)".
	String() string
}

// Change replaces From by To. A route is added or removed as a whole, so one of From and To is
// nil. An NI or a peer is added or removed in the same way; both are set if an NI changes in
// place, or a peer loses or gains NIDs. For all other types both are set, because a node has
// exactly one of each.
type Change[T NI | Order | Peer | Route | Policies | Parameters | node.Buffers | Routing] struct {
	From, To *T
}

// Inverse returns the opposite change.
func (c Change[T]) Inverse() Step { return Change[T]{From: c.To, To: c.From} }

// String describes the change for an operator.
func (c Change[T]) String() string {
	verb, thing := "change", c.To
	switch {
	case c.From == nil:
		verb = "add"
	case c.To == nil:
		verb, thing = "remove", c.From
	}
	return verb + " " + what(any(thing))
}

// what returns the operator's name of an item that a Change changes. The argument is a pointer to the
// item.
func what(thing any) string {
	switch v := thing.(type) {
	case *NI:
		return "NI " + v.String()
	case *Order:
		return "the order of NIs"
	case *Peer:
		return "peer " + v.Primary.String()
	case *Route:
		return fmt.Sprintf("route to %s through %s", v.Net, v.Gateway)
	case *Policies:
		return "policies"
	case *Parameters:
		return "parameters"
	case *node.Buffers:
		return "router buffers"
	}
	return "routing"
}

// DriverChange replaces the driver for a net type by one with other options. The node must have
// no NI of that type when the step is applied.
type DriverChange struct {
	Type     lnet.NetType
	From, To Values
}

// Inverse returns the opposite change.
func (c DriverChange) Inverse() Step {
	c.From, c.To = c.To, c.From
	return c
}

// String describes the change for an operator.
func (c DriverChange) String() string {
	return fmt.Sprintf("change the options of %s nets", c.Type)
}
