package socklnd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
)

// Causes of closed connections and failed messages.
var (
	errEOF         = fmt.Errorf("%w: closed by the peer", lnd.ErrDisconnected)
	errTruncated   = fmt.Errorf("%w: the peer closed the connection in the middle of a message", lnd.ErrProtocol)
	errReceiveTime = fmt.Errorf("%w: the rest of a message did not arrive", lnd.ErrTimeout)
	errSendTime    = fmt.Errorf("%w: the peer receives no more data", lnd.ErrTimeout)
	errManyAcks    = fmt.Errorf("%w: the peer does not receive the acknowledgements of %d zero-copy requests", lnd.ErrProtocol, maxAcks)
	errTurnedAway  = &lnd.CallError{Reason: lnd.CallTurnedAway, Err: errors.New("the peer refused several attempts to connect in a row")}
)

// connectStatus returns the health class of messages that waited for a connection, which could not be made
// because of err (socklnd 15.2).
func connectStatus(err error) lnd.Status {
	switch {
	case errors.Is(err, peering.ErrDisconnect):
		return lnd.StatusLocalAborted
	case errors.Is(err, lnd.ErrClosed), errors.Is(err, lnd.ErrDisconnected):
		return lnd.StatusRemoteDropped
	case isTimeout(err):
		return lnd.StatusNetworkTimeout
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.Is(err, syscall.ENETDOWN), errors.Is(err, io.EOF):
		return lnd.StatusRemoteDropped
	}
	return lnd.StatusLocalError
}

// startedStatus returns the health class of a message that was being written when its connection failed
// (socklnd 15.2). Such a message is not resent.
func startedStatus(cause error) lnd.Status {
	if errors.Is(cause, syscall.ETIMEDOUT) {
		return lnd.StatusRemoteTimeout
	}
	return lnd.StatusLocalError
}

// unstartedStatus returns the health class of a message of which no byte was written before its connection
// ended because of cause. A kernel fails such a message for good. We let LNet resend it on another path,
// because it cannot have arrived.
func unstartedStatus(cause error) lnd.Status {
	if errors.Is(cause, peering.ErrDisconnect) {
		return lnd.StatusLocalAborted
	}
	return lnd.StatusLocalDropped
}

func isTimeout(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lnd.ErrTimeout)
}

// timeoutErrno adds ETIMEDOUT, which users know, to an error that is a timeout. It returns any other error
// unchanged.
func timeoutErrno(err error) error {
	if isTimeout(err) && !errors.Is(err, syscall.ETIMEDOUT) {
		return fmt.Errorf("%w: %w", err, syscall.ETIMEDOUT)
	}
	return err
}
