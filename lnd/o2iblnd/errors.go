package o2iblnd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Causes of closed connections and failed messages.
var (
	errPeerGone    = fmt.Errorf("%w: closed by the peer", lnd.ErrDisconnected)
	errNoMemory    = errors.New("the pool of registered memory is empty")
	errMemoryTime  = fmt.Errorf("%w: no registered memory became free: %w", lnd.ErrTimeout, syscall.ENOMEM)
	errDeviceGone  = fmt.Errorf("the RDMA device was removed or has failed: %w", syscall.ENODEV)
	errShortAnswer = errors.New("the reply has fewer bytes than were requested, and a kernel may not have written all of them: request exactly as many as the target has")
)

// statusOf returns the health class of a failure. If neither side is at fault (protocol.OK), this is
// StatusRemoteError, which forbids a resend, because the peer may have received the message (o2iblnd 13.3).
func statusOf(f *protocol.Failure) lnd.Status {
	if f.Health == protocol.OK {
		return lnd.StatusRemoteError
	}
	return lnd.Status(f.Health)
}

// failed returns the error of a message, or of an attempt to connect, that ended with the failure f.
func (i *Interface) failed(op string, peer lnet.NID, f *protocol.Failure) *lnd.Error {
	var err error = f
	switch {
	case errors.Is(f, lnd.ErrClosed), errors.Is(f, lnd.ErrDisconnected):
	case f.Errno == syscall.ETIMEDOUT:
		err = fmt.Errorf("%w: %w", lnd.ErrTimeout, f)
	case f.Errno == syscall.EPROTO:
		err = fmt.Errorf("%w: %w", lnd.ErrProtocol, f)
	case f.Errno == syscall.ECONNABORTED, f.Errno == syscall.EIO:
		err = fmt.Errorf("%w: %w", lnd.ErrDisconnected, f)
	}
	return i.Error(op, peer, statusOf(f), err)
}

// aborted returns the failure of a connection that this node closes because of err, although nothing went
// wrong.
func aborted(err error) *protocol.Failure {
	return &protocol.Failure{Health: protocol.LocalAborted, Errno: syscall.ECONNABORTED, Err: err}
}
