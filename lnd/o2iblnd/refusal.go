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

// errSlow is the cause when an inbound connection is closed that this node has accepted, but that was not
// established in time.
var errSlow = &lnd.RefusedError{Reason: lnd.RefusedSlow, Err: fmt.Errorf("%w: the caller did not complete the handshake", lnd.ErrTimeout)}

// misunderstood returns the *lnd.RefusedError for a caller whose request was rejected with r because of err.
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

// evictedFailure returns the failure of a connection that was evicted from Driver.halfOpen. err is the reason.
func evictedFailure(err error) *protocol.Failure {
	return &protocol.Failure{Health: protocol.LocalError, Errno: syscall.ECONNABORTED, Err: err}
}

// refused returns the error of a caller whose connection ended because of f before it was established.
func refused(f *protocol.Failure) error {
	if errors.Is(f, peering.ErrStale) {
		return &lnd.RefusedError{Reason: lnd.RefusedStale, Err: f}
	}
	return f
}

// turnedAway adds the reason to err, the error of an attempt that the peer has rejected for good (o2iblnd 6). e
// is the CM event, and d is the decision of the protocol.
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
		// A kernel node rejects without data if nothing listens at the address, but at another address of the
		// host.
		return &lnd.CallError{Reason: lnd.CallRefused, Err: err}
	}
	return peering.Malformed(err)
}

// callError adds a reason to err, the error of an attempt to connect that has ended with the failure f, if err
// does not show the right one.
func callError(f *protocol.Failure, err error) error {
	switch {
	case errors.Is(f, protocol.CMUnreachable), errors.Is(f, protocol.CMTimeout):
		return &lnd.CallError{Reason: lnd.CallTimeout, Err: err}
	case f.Errno == syscall.EIO: // a failure of this node's device, not of the peer
		return &lnd.CallError{Reason: lnd.CallOther, Err: err}
	}
	return err
}
