package node

import (
	"errors"

	"github.com/lnetd/lnetd/lnet/portals"
)

// ErrNotMade means that the Node is nil or the zero value.
var ErrNotMade = errors.New("node: the Node was not created by New")

// ErrInHandler means that a handler called a method that blocks (EDEADLK). The handler
// might be what the call waits for: for example, a PUT to 0@lo arrives only after the
// handler has returned. A handler that needs such a call must make it in a goroutine and
// not wait for that goroutine. Methods that return no error panic with ErrInHandler.
var ErrInHandler = errors.New("called in a handler; handlers must not wait")

// phase is the stage of a Node's life.
type phase = uint32

const (
	phaseNone    phase = iota // not created by New
	phaseOpen                 // accepts requests
	phaseClosing              // closing or closed
)

func (n *Node) isClosing() bool { return n.phase.Load() == phaseClosing }

// checkMade returns ErrNotMade if n was not created by New. Every method checks this first,
// directly or indirectly, because the other fields are not set in such a Node.
func (n *Node) checkMade() error {
	if n == nil || n.phase.Load() == phaseNone {
		return ErrNotMade
	}
	return nil
}

// isMade reports whether n was created by New. It is for methods that return no error.
func (n *Node) isMade() bool { return n.checkMade() == nil }

// checkOpen returns nil if n accepts requests.
func (n *Node) checkOpen() error {
	if n != nil && n.phase.Load() == phaseOpen {
		return nil
	}
	if err := n.checkMade(); err != nil {
		return err
	}
	return ErrClosed
}

// checkMayBlock returns nil if the caller is allowed to block.
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
