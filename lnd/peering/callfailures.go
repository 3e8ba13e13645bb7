package peering

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// CallFailures counts the failed calls (attempts to connect) of an interface, by reason. The zero value is
// ready to use. It is safe for concurrent use.
type CallFailures [lnd.CallFailures]atomic.Uint64

// Counts returns the current counts.
func (t *CallFailures) Counts() (c lnd.CallFailureCounts) {
	for f := range t {
		c[f] = t[f].Load()
	}
	return c
}

// Failed counts and logs a call to a peer that failed because of err. A call that this node has canceled
// itself is no failure and must not be passed to it.
func (t *CallFailures) Failed(log *boundedlog.Log, peer lnet.NID, err error) {
	t[callFailureFor(err)].Add(1)
	log.Report(boundedlog.Line{
		Level: slog.LevelWarn, Text: "connect failed", Cause: connections, Of: boundedlog.AboutPeer(peer),
	}, slog.Any("cause", err))
}

// callFailureFor returns the reason under which err is counted. If the peer's answer was invalid, err
// contains the *lnd.RefusedError that Malformed returns for it. A driver wraps an error that does not show
// its reason in a *lnd.CallError.
func callFailureFor(err error) lnd.CallFailure {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	var known *lnd.CallError
	var invalid *lnd.RefusedError
	switch {
	case errors.As(err, &known):
		return known.Reason
	case errors.As(err, &invalid) && invalid.Reason == lnd.RefusedMagic:
		return lnd.CallMagic
	case errors.As(err, &invalid) && invalid.Reason == lnd.RefusedVersion:
		return lnd.CallVersion
	case invalid != nil, is(lnd.ErrProtocol):
		return lnd.CallHello
	case is(lnd.ErrTimeout, syscall.ETIMEDOUT, os.ErrDeadlineExceeded, context.DeadlineExceeded):
		return lnd.CallTimeout
	case is(syscall.ECONNREFUSED):
		return lnd.CallRefused
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN):
		return lnd.CallUnreachable
	case is(syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.EACCES, syscall.EPERM):
		return lnd.CallNoPort
	case is(io.EOF, lnd.ErrDisconnected, syscall.ECONNRESET, syscall.EPIPE):
		return lnd.CallGone
	}
	return lnd.CallOther
}
