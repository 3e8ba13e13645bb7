package config

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Step is one of the steps from one State to another. Its dynamic type is one of
// Change[NI], Change[Order], Change[Peer], Change[Route], Change[Policies], Change[Parameters],
// Change[node.Buffers], Change[Routing] and DriverChange. Who applies steps looks
// there for what to do; a step itself does nothing.
type Step interface {
	// Inverse takes the step back.
	Inverse() Step
	// Commands are the step in the words of lnetdctl, one after the other, without its
	// name: "net add --net tcp1 --if eth1".
	Commands() []string
	// String tells an operator what the step does: "add NI tcp(eth0)".
	String() string
}

// Change makes of a thing another one. Routes come and go as a whole: one of From and To
// is nil. So do NIs and peers, with both set if an NI changes in place or a peer loses or
// gains NIDs.
// Of the others a node has exactly one: both are set.
type Change[T NI | Order | Peer | Route | Policies | Parameters | node.Buffers | Routing] struct {
	From, To *T
}

// Inverse is the change back.
func (c Change[T]) Inverse() Step { return Change[T]{From: c.To, To: c.From} }

// String tells an operator what the change does.
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

// what names a thing that changes, given as a pointer.
func what(thing any) string {
	switch v := thing.(type) {
	case *NI:
		return "NI " + v.String()
	case *Order:
		return "the order of NIs"
	case *Peer:
		return "peer " + v.Primary.String()
	case *Route:
		return fmt.Sprintf("route to %s by %s", v.Net, v.Gateway)
	case *Policies:
		return "policies"
	case *Parameters:
		return "parameters"
	case *node.Buffers:
		return "router buffers"
	}
	return "routing"
}

// DriverChange replaces the driver for a net type by one with other options. The node has no
// NI of the type when the step is due.
type DriverChange struct {
	Type     lnet.NetType
	From, To Values
}

// Inverse is the change back.
func (c DriverChange) Inverse() Step {
	c.From, c.To = c.To, c.From
	return c
}

// String tells an operator what the change does.
func (c DriverChange) String() string {
	return fmt.Sprintf("change the options of %s nets", c.Type)
}
