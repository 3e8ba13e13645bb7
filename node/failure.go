package node

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// failure is the last failure of a message or a connection that a peer NI caused, for
// display. It is kept until a message arrives from the peer NI.
type failure struct {
	second int64 // of the node's clock
	at     time.Time
	text   string
}

// noteFailure keeps text as the last failure of p, unless text is empty. It keeps at most
// one failure per second, because all messages of a queue fail at the same time.
func (n *Node) noteFailure(p *peerNI, text string) {
	second := n.second.Load()
	if f := p.failure.Load(); text == "" || f != nil && f.second == second {
		return
	}
	p.failure.Store(&failure{second, time.Now(), text})
}

// failureText returns a description of a driver's error if the error is about a peer: it
// refuses or resets connections, does not answer, or violates the protocol. It returns an
// empty string for errors that are about this node, for connections that were closed
// properly, and for ErrUnreachable, whose cause was recorded when the last attempt to
// connect failed.
func failureText(err error) string {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(lnd.ErrUnreachable, lnd.ErrRestarted, lnd.ErrRecalled, lnd.ErrClosed), lnd.StatusOf(err) == lnd.StatusLocalAborted:
		return ""
	case is(syscall.ECONNREFUSED):
		return "connection refused"
	case is(syscall.ECONNRESET, syscall.EPIPE):
		return "connection reset"
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH):
		return "no IP route"
	case is(lnd.ErrProtocol):
		return "protocol error"
	case is(lnd.ErrTimeout, syscall.ETIMEDOUT):
		return "timed out waiting for the answer"
	}
	return ""
}

// sendFailureText is like failureText, but for the error of a message. In addition it has
// a text for a connection that the peer closed before it was established.
func sendFailureText(err error) string {
	e, ok := errors.AsType[*lnd.Error](err)
	if !ok {
		return ""
	}
	text := failureText(err)
	if text == "" && e.Op == "connect" && (errors.Is(err, io.EOF) || errors.Is(err, lnd.ErrDisconnected)) && e.Status != lnd.StatusLocalAborted {
		return "connection closed before it was established"
	}
	return text
}
