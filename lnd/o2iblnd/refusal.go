package o2iblnd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// errSlow is the cause for a caller that was accepted and then did not go on.
var errSlow = &lnd.RefusedError{Reason: lnd.RefusedSlow, Err: fmt.Errorf("%w: the caller did not go on", lnd.ErrTimeout)}

// misunderstood returns the error for a caller that the protocol's rules reject.
func misunderstood(r *protocol.Reject, err error) error {
	var field *lnet.FieldError
	errors.As(err, &field)
	switch {
	case r.Why == protocol.Stale:
		return &lnd.RefusedError{Reason: lnd.RefusedStale, Err: err}
	case field != nil && field.Field == "source port":
		return &lnd.RefusedError{Reason: lnd.RefusedPort, Err: err}
	case field != nil && field.Field == "dstnid":
		return &lnd.RefusedError{Reason: lnd.RefusedNID, Err: err}
	}
	return peering.Malformed(err)
}

// evictedFailure returns the failure of a connection that was evicted while half-open.
func evictedFailure(err error) *protocol.Failure {
	return &protocol.Failure{Health: protocol.LocalError, Errno: syscall.ECONNABORTED, Err: err}
}

// refused returns the error for a caller whose connection ended before it was established.
func refused(f *protocol.Failure) error {
	if errors.Is(f, peering.ErrStale) {
		return &lnd.RefusedError{Reason: lnd.RefusedStale, Err: f}
	}
	return f
}

// turnedAway returns the error for a call that was rejected for good, given the error that the protocol
// has for it (o2iblnd 6).
func turnedAway(e *verbs.Event, d *protocol.Decision, err error) error {
	switch {
	case e.Status == verbs.RejectNoListener:
		return &lnd.CallError{Reason: lnd.CallRefused, Err: err}
	case e.Status != verbs.RejectConsumer:
		return &lnd.CallError{Reason: lnd.CallOther, Err: err}
	case d.Why == protocol.Uncompat:
		return &lnd.CallError{Reason: lnd.CallVersion, Err: err}
	case d.Why != 0:
		return &lnd.CallError{Reason: lnd.CallTurnedAway, Err: err}
	case e.Private == [len(e.Private)]byte{}:
		// Kernels answer so for an address without a listener, if another address of the host has one.
		return &lnd.CallError{Reason: lnd.CallRefused, Err: err}
	}
	return peering.Malformed(err)
}

// callError returns err, the error of a call that has ended with a failure, with the reason to count.
func callError(f *protocol.Failure, err error) error {
	switch {
	case errors.Is(f, protocol.CMUnreachable), errors.Is(f, protocol.CMTimeout):
		return &lnd.CallError{Reason: lnd.CallTimeout, Err: err}
	case f.Errno == syscall.EIO: // of the device, not of the peer
		return &lnd.CallError{Reason: lnd.CallOther, Err: err}
	}
	return err
}
