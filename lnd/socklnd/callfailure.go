package socklnd

import (
	"errors"
	"io"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
)

// CallFailures implements lnd.Caller.
func (i *Interface) CallFailures() lnd.CallFailureCounts { return i.counters.callFailures.Counts() }

// callFailure returns the reason for a failed attempt to connect.
func callFailure(err error) lnd.CallFailure {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(errTurnedAway):
		return lnd.CallTurnedAway
	case is(lnd.ErrProtocol):
		var bad *lnd.RefusedError
		errors.As(misunderstood(err), &bad)
		switch bad.Reason {
		case lnd.RefusedMagic:
			return lnd.CallMagic
		case lnd.RefusedVersion:
			return lnd.CallVersion
		}
		return lnd.CallHello
	case isTimeout(err):
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
