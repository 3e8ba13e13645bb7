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

// unheard is the error of a caller that could not be read from.
func unheard(s Stream, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &lnd.RefusedError{Reason: lnd.RefusedSlow, Err: err}
	}
	return left(s, err)
}

// left is the error of a caller that ended its connection before it was let in: err, of a
// system call, does not say whose fault it is.
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

// misunderstood is the error of a caller whose words make no sense.
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

// refusalFor is the reason behind a verdict that is not Register.
func refusalFor(v protocol.Verdict, in *protocol.Inbound) lnd.Refusal {
	switch {
	case v == protocol.Drop && !in.Hello.Type.Valid():
		return lnd.RefusedHello
	case v == protocol.Drop:
		return lnd.RefusedClosing
	case v == protocol.RefuseStale:
		return lnd.RefusedStale
	case in.Connecting && in.Hello.Src.Compare(in.Self) < 0:
		return lnd.RefusedRace
	}
	return lnd.RefusedDuplicate
}

// ordinary tells that a reason belongs to the life of peers that mean well, of
// which nobody needs to hear.
func ordinary(r lnd.Refusal) bool {
	switch r {
	case lnd.RefusedDuplicate, lnd.RefusedRace, lnd.RefusedStale, lnd.RefusedClosing:
		return true
	}
	return false
}

// refused counts and tells of a caller that was turned away by i, or, as nil, by
// one of those that listen here.
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

// anyUser is an interface that listens here, the first of several; nil if none
// does any more.
func (a *acceptor) anyUser() *Interface {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	if len(a.users) == 0 {
		return nil
	}
	return a.users[0]
}
