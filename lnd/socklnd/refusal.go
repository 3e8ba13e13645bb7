package socklnd

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

var (
	errPort      = &lnd.RefusedError{Reason: lnd.RefusedPort, Err: errors.New("unprivileged port")}
	errStrangers = &lnd.RefusedError{Reason: lnd.RefusedMany, Err: errors.New("too many that say nothing")}
)

// unheard returns the error for a caller from which reading failed.
func unheard(s Stream, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &lnd.RefusedError{Reason: lnd.RefusedSlow, Err: err}
	}
	return left(s, err)
}

// left returns the error for a caller that closed its connection before it was accepted. err, from a
// system call, does not show which side closed.
func left(s Stream, err error) error {
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

// misunderstood returns the error for a caller whose handshake is invalid.
func misunderstood(err error) error {
	var magic *lnet.MagicError
	var hello *protocol.MagicError
	var version *lnet.VersionError
	var unknown *protocol.UnknownVersionError
	r := lnd.RefusedHello
	switch {
	case errors.As(err, &magic), errors.As(err, &hello):
		r = lnd.RefusedMagic
	case errors.As(err, &version), errors.As(err, &unknown), errors.Is(err, lnet.ErrProtocolQuery):
		r = lnd.RefusedVersion
	}
	return &lnd.RefusedError{Reason: r, Err: err}
}

// refusalFor returns the reason for a verdict other than Register.
func refusalFor(v protocol.Verdict, in *protocol.Inbound) lnd.Refusal {
	switch {
	case v == protocol.Drop && !in.Hello.Type.Valid():
		return lnd.RefusedHello
	case v == protocol.Drop:
		return lnd.RefusedClosing
	case v == protocol.RefuseStale:
		return lnd.RefusedStale
	case v == protocol.RefuseRace:
		return lnd.RefusedRace
	}
	return lnd.RefusedDuplicate
}

// ordinary reports whether a reason also occurs with well-behaved peers, so that operators need not see
// it.
func ordinary(r lnd.Refusal) bool {
	switch r {
	case lnd.RefusedDuplicate, lnd.RefusedRace, lnd.RefusedStale, lnd.RefusedClosing:
		return true
	}
	return false
}

// refused counts and logs a caller that i refused. If i is nil, the caller is counted on one of the
// acceptor's interfaces.
func (a *acceptor) refused(i *Interface, s Stream, err error) {
	reason := lnd.RefusedGone
	var refused *lnd.RefusedError
	switch {
	case errors.As(err, &refused):
		reason = refused.Reason
	case errors.Is(err, lnd.ErrClosed):
		reason = lnd.RefusedClosing
	}
	d := a.d
	if i == nil {
		i = a.anyUser()
	}
	if i != nil {
		i.counters.refused.Add(reason)
	}
	remote := s.RemoteAddr()
	l := boundedlog.Line{Level: slog.LevelInfo, Text: "caller refused", Of: boundedlog.AboutCaller(remote.Addr())}
	if ordinary(reason) {
		l.Level = slog.LevelDebug
	}
	d.log.Tell(l, slog.Uint64("port", uint64(remote.Port())), slog.String("reason", reason.String()), slog.Any("cause", err))
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
