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

// readRefusal returns the *lnd.RefusedError for a caller, after reading its handshake has failed with err.
func readRefusal(s Stream, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &lnd.RefusedError{Reason: lnd.RefusedSlow, Err: err}
	}
	return closedRefusal(s, err)
}

// closedRefusal returns the *lnd.RefusedError for a caller that closed its connection before it was accepted.
// err is the error of a system call. Its text does not show which side closed the connection, so closedRefusal
// adds that.
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

// misunderstood returns the *lnd.RefusedError for a peer whose message in the handshake is invalid because of
// err.
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

// refusalFor returns the reason for counters and logs after a verdict other than Register. ended is how the
// caller's side of the stream had ended before the verdict; it is nil if it had not.
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

// refusalText describes a reason that refusalFor returns.
func refusalText(r lnd.Refusal) string {
	switch r {
	case lnd.RefusedHello:
		return "its connection type is invalid"
	case lnd.RefusedGone:
		return "the caller has closed the connection"
	case lnd.RefusedClosing:
		return "the interface or the peer is being closed"
	case lnd.RefusedStale:
		return "its incarnation or version differs from that of its connections"
	case lnd.RefusedRace:
		return "this node is connecting to the caller itself"
	}
	return "there are enough connections of its type"
}

// refused counts and logs a caller that was refused because of err. It is counted on i, the interface that the
// caller requested, or on any interface of the acceptor if i is nil.
func (a *acceptor) refused(i *Interface, s Stream, err error) {
	if i == nil {
		i = a.anyUser()
	}
	var count *peering.Refusals // nil if no interface uses the acceptor any more
	if i != nil {
		count = &i.Count.Refused
	}
	count.Refused(a.d.log, s.RemoteAddr(), err)
}

// anyUser returns an interface that uses the acceptor, or nil if none does any more.
func (a *acceptor) anyUser() *Interface {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	if len(a.users) == 0 {
		return nil
	}
	return a.users[0]
}
