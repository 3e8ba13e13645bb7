package remote

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

var (
	errClosed    = fmt.Errorf("remote: the domain is closed: %w", syscall.ESHUTDOWN)
	errStopped   = fmt.Errorf("remote: the TM is stopped: %w", syscall.ESHUTDOWN)
	errBuffer    = fmt.Errorf("remote: the buffer does not belong to this domain: %w", syscall.EINVAL)
	errBusy      = fmt.Errorf("remote: an operation on the buffer is still in progress: %w", syscall.EBUSY)
	errSizes     = fmt.Errorf("remote: the length of the operation is not within its buffer: %w", syscall.EINVAL)
	errQueue     = fmt.Errorf("remote: there is no such queue: %w", syscall.EINVAL)
	errTruncated = fmt.Errorf("a record or its file descriptors exceed the maximum length: %w", syscall.EPROTO)
)

// silentError returns the error for a connection on which lnetd has sent nothing for duration d.
func silentError(d time.Duration) error {
	return fmt.Errorf("lnetd has not answered for %v, although its process exists: %w", d, syscall.ETIMEDOUT)
}

// endOfConnection returns the error that describes why the connection has ended. n is lnetd's last notice
// about its end or that of the connection, or nil. err is the error of the socket, or nil if lnetd has closed
// it normally. The result matches EPIPE (transport 3.5).
func endOfConnection(n *protocol.Notice, err error) error {
	switch {
	case n != nil && n.Kind == protocol.NoticeCutOff:
		return fmt.Errorf("remote: lnetd disconnected this program: %s: %w (%w)", n.Text, n.Errno(), syscall.EPIPE)
	case err != nil:
		return fmt.Errorf("remote: the connection to lnetd was lost: %w (%w)", err, syscall.EPIPE)
	case n != nil && n.Text != "":
		return fmt.Errorf("remote: lnetd ended, as announced: %s: %w", n.Text, syscall.EPIPE)
	case n != nil:
		return fmt.Errorf("remote: lnetd ended, as announced: %w", syscall.EPIPE)
	}
	return fmt.Errorf("remote: lnetd closed the connection without giving a reason: %w", syscall.EPIPE)
}

// opError is the error of an op that lnetd has begun and that failed. It is an errno, usually less than 256,
// because converting such a small number to an interface does not allocate.
type opError syscall.Errno

func (e opError) Error() string { return "lnetd: " + syscall.Errno(e).Error() }

// Unwrap returns the errno.
func (e opError) Unwrap() error { return syscall.Errno(e) }

// rejectedError is the error of an op that lnetd has refused to begin.
type rejectedError syscall.Errno

func (e rejectedError) Error() string {
	return "lnetd has refused the operation: " + syscall.Errno(e).Error()
}

// Unwrap returns the errno.
func (e rejectedError) Unwrap() error { return syscall.Errno(e) }

// connectionEnded reports whether err means that the connection has ended.
func connectionEnded(err error) bool { return errors.Is(err, syscall.EPIPE) }
