package rpc

import (
	"context"
	"errors"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/node"
)

// Errors of RPCs. Errno returns the errno in parentheses.
var (
	// ErrTimedOut means that the RPC has timed out (ETIMEDOUT).
	ErrTimedOut = errors.New("RPC timed out")
	// ErrAborted means that the RPC was aborted (EINTR).
	ErrAborted = errors.New("RPC aborted")
	// ErrClosed means that the client, or its node, is closed (ESHUTDOWN).
	ErrClosed = errors.New("RPC client closed")
	// ErrBadReply means that the message received as the reply is not a valid reply to the request (EBADMSG).
	ErrBadReply = errors.New("malformed reply")
	// ErrBadVersion means that the reply has an unknown version (EPROTO).
	ErrBadVersion = errors.New("reply of an unknown version")
	// ErrShortBulk means that the bulk was not transferred completely (EMSGSIZE).
	ErrShortBulk = errors.New("bulk data does not have the requested length")
	// ErrInvalid means that the RPC was not started, because its target is not a single process or its bulk
	// exceeds 1 MiB (EINVAL).
	ErrInvalid = errors.New("invalid call")
)

var errnos = []struct {
	err   error
	errno syscall.Errno
}{
	{ErrTimedOut, syscall.ETIMEDOUT},
	{ErrAborted, syscall.EINTR},
	{ErrClosed, syscall.ESHUTDOWN},
	{ErrBadReply, syscall.EBADMSG},
	{ErrBadVersion, syscall.EPROTO},
	{ErrShortBulk, syscall.EMSGSIZE},
	{ErrInvalid, syscall.EINVAL},
	{node.ErrUnreachable, syscall.EHOSTUNREACH},
	{node.ErrTimedOut, syscall.ETIMEDOUT},
	{node.ErrCanceled, syscall.ECANCELED},
	{node.ErrClosed, syscall.ESHUTDOWN},
	{node.ErrInvalid, syscall.EINVAL},
	{lnd.ErrUnreachable, syscall.EHOSTUNREACH},
	{lnd.ErrTimeout, syscall.ETIMEDOUT},
	{lnd.ErrDisconnected, syscall.ECONNABORTED},
	{lnd.ErrClosed, syscall.ESHUTDOWN},
	{context.DeadlineExceeded, syscall.ETIMEDOUT},
	{context.Canceled, syscall.EINTR},
}

// Errno returns the errno with which consoles report an error of an RPC. It returns 0 for nil, and EIO for
// errors without a better errno.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != 0 {
		return errno
	}
	return syscall.EIO
}
