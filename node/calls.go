package node

import (
	"errors"

	"github.com/lnetd/lnetd/lnet/portals"
)

// ErrNotMade means that the Node is nil or the zero value. Methods that return no
// error panic with it.
var ErrNotMade = errors.New("node: not made by New")

// ErrInHandler means that a handler has made a call that waits (EDEADLK). It may be
// what the call waits for: a PUT to 0@lo, for example, arrives when the handler has
// returned. A handler that needs such a call has a goroutine make it, and does not
// wait for that. Methods that return no error panic with it.
var ErrInHandler = errors.New("called in a handler, which must not wait")

// phase is how far the life of a Node has come.
type phase = uint32

const (
	phaseNone    phase = iota // New has not made it
	phaseOpen                 // it takes requests
	phaseClosing              // or closed
)

func (n *Node) isClosing() bool { return n.phase.Load() == phaseClosing }

// exists is nil unless New has not made n. What else methods look at in a Node that
// was not made is not there: all go by this first, in one way or another.
func (n *Node) exists() error {
	if n == nil || n.phase.Load() == phaseNone {
		return ErrNotMade
	}
	return nil
}

// made is n, if New has made it, for methods that return no error.
func (n *Node) made() *Node {
	if err := n.exists(); err != nil {
		panic(err)
	}
	return n
}

// takes is nil if n takes requests.
func (n *Node) takes() error {
	if n != nil && n.phase.Load() == phaseOpen {
		return nil
	}
	if err := n.exists(); err != nil {
		return err
	}
	return ErrClosed
}

// mayWait is nil if the caller may wait for others.
func (n *Node) mayWait() error {
	if err := n.exists(); err != nil {
		return err
	}
	if portals.InHandler() {
		return ErrInHandler
	}
	return nil
}

// free is n, if the caller may wait for others, for methods that return no error.
func (n *Node) free() *Node {
	if err := n.mayWait(); err != nil {
		panic(err)
	}
	return n
}
