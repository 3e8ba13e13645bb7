package socklnd

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

var errPort = &lnd.RefusedError{Reason: lnd.RefusedPort, Err: errors.New("unprivileged port")}

// readRefusal returns the error for a caller from which reading failed.
func readRefusal(s Stream, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &lnd.RefusedError{Reason: lnd.RefusedSlow, Err: err}
	}
	return closedRefusal(s, err)
}

// closedRefusal returns the error for a caller that closed its connection before it was accepted. err, from a
// system call, does not show which side closed.
func closedRefusal(s Stream, err error) error {
	var did string
	switch {
	case errors.Is(err, io.EOF):
		did = "closed"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ENOTCONN):
		did = "reset"
	default:
		return &lnd.RefusedError{Reason: lnd.RefusedGone, Err: err}
	}
	return lnd.Refuse(lnd.RefusedGone, "the caller at %s %s the connection before the hellos were exchanged: %w", s.RemoteAddr(), did, err)
}

// misunderstood returns the error for a peer whose part of the handshake is invalid.
func misunderstood(err error) error {
	var magic *protocol.MagicError
	var version *protocol.UnknownVersionError
	switch {
	case errors.As(err, &magic):
		return &lnd.RefusedError{Reason: lnd.RefusedMagic, Err: err}
	case errors.As(err, &version):
		return &lnd.RefusedError{Reason: lnd.RefusedVersion, Err: err}
	}
	return peering.Malformed(err)
}

// refusalFor returns the reason for a verdict other than Register. ended is how the caller's side of the
// stream has ended, or nil.
func refusalFor(v protocol.Verdict, in *protocol.Inbound, ended error) lnd.Refusal {
	switch {
	case v == protocol.Drop && !in.Hello.Type.Valid():
		return lnd.RefusedHello
	case v == protocol.Drop && ended != nil:
		return lnd.RefusedGone
	case v == protocol.Drop:
		return lnd.RefusedClosing
	case v == protocol.RefuseStale:
		return lnd.RefusedStale
	case v == protocol.RefuseRace:
		return lnd.RefusedRace
	}
	return lnd.RefusedDuplicate
}

// refused counts and logs a caller that i refused. If i is nil, the caller is counted on one of the
// acceptor's interfaces.
func (a *acceptor) refused(i *Interface, s Stream, err error) {
	if i == nil {
		i = a.anyUser()
	}
	var count *peering.Refusals // none if the last interface has left
	if i != nil {
		count = &i.Count.Refused
	}
	count.Refused(a.d.log, s.RemoteAddr(), err)
}

// anyUser returns the first interface that uses the acceptor, or nil if none does.
func (a *acceptor) anyUser() *Interface {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	if len(a.users) == 0 {
		return nil
	}
	return a.users[0]
}
