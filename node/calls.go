package node

import (
	"errors"

	"github.com/lnetd/lnetd/lnet/portals"
)

// ErrNotMade means that the Node is nil or the zero value.
var ErrNotMade = errors.New("node: the Node was not created by New")

// ErrInHandler means that a handler called a method that blocks (EDEADLK). Such a call
// could wait forever for something that happens only after the handler has returned, for
// example for the arrival of a PUT to 0@lo. A handler that needs such a call must make it
// in another goroutine and not wait for that goroutine. Methods that return no error panic
// with ErrInHandler.
var ErrInHandler = errors.New("called from a handler; handlers must not wait")

// phase is the stage in the life of a Node, which determines whether it accepts requests.
type phase = uint32

const (
	phaseNone    phase = iota // not created by New
	phaseOpen                 // accepts requests
	phaseClosing              // closing or closed
)

func (n *Node) isClosing() bool { return n.phase.Load() == phaseClosing }

// checkMade returns ErrNotMade if n was not created by New. Every method checks this
// first, directly or through another check, because no other field of such a Node is set.
func (n *Node) checkMade() error {
	if n == nil || n.phase.Load() == phaseNone {
		return ErrNotMade
	}
	return nil
}

// isMade reports whether n was created by New. It is for methods that return no error.
func (n *Node) isMade() bool { return n.checkMade() == nil }

// checkOpen returns nil if n accepts requests. Otherwise it returns ErrNotMade or
// ErrClosed.
func (n *Node) checkOpen() error {
	if n != nil && n.phase.Load() == phaseOpen {
		return nil
	}
	if err := n.checkMade(); err != nil {
		return err
	}
	return ErrClosed
}

// checkMayBlock returns nil if the caller is allowed to block. Otherwise it returns
// ErrNotMade, or ErrInHandler if a handler calls it.
func (n *Node) checkMayBlock() error {
	if err := n.checkMade(); err != nil {
		return err
	}
	if portals.InHandler() {
		return ErrInHandler
	}
	return nil
}

// panicInHandler panics with ErrInHandler if a handler calls it. It is for methods that
// block and return no error.
func (n *Node) panicInHandler() {
	if portals.InHandler() {
		panic(ErrInHandler)
	}
}
