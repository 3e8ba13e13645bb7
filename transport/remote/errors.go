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
	errBuffer    = fmt.Errorf("remote: the buffer is none of this domain: %w", syscall.EINVAL)
	errBusy      = fmt.Errorf("remote: an op on the buffer is under way: %w", syscall.EBUSY)
	errSizes     = fmt.Errorf("remote: the op does not fit its buffer: %w", syscall.EINVAL)
	errQueue     = fmt.Errorf("remote: there is no such queue: %w", syscall.EINVAL)
	errCredits   = fmt.Errorf("remote: no room for the events of another op: %w", syscall.ENOBUFS)
	errFull      = fmt.Errorf("remote: lnetd does not take what was submitted: %w", syscall.ENOBUFS)
	errTruncated = fmt.Errorf("a record, or what comes with it, is too long: %w", syscall.EPROTO)
)

// silentError returns the error for a connection on which lnetd has sent nothing for duration d.
func silentError(d time.Duration) error {
	return fmt.Errorf("it has not answered for %v, though it runs or is stopped: %w", d, syscall.ETIMEDOUT)
}

// endOfConnection returns the error that describes why the connection has ended. n is lnetd's last notice
// about its end or that of the connection, or nil. err is the error of the socket, or nil if lnetd has closed
// it normally. The result matches EPIPE (transport 3.5).
func endOfConnection(n *protocol.Notice, err error) error {
	switch {
	case n != nil && n.Kind == protocol.NoticeCutOff:
		return fmt.Errorf("remote: lnetd has cut this program off: %s: %w (%w)", n.Text, n.Errno(), syscall.EPIPE)
	case err != nil:
		return fmt.Errorf("remote: the connection to lnetd is over: %w (%w)", err, syscall.EPIPE)
	case n != nil && n.Text != "":
		return fmt.Errorf("remote: lnetd has ended, as it had said: %s: %w", n.Text, syscall.EPIPE)
	case n != nil:
		return fmt.Errorf("remote: lnetd has ended, as it had said: %w", syscall.EPIPE)
	}
	return fmt.Errorf("remote: lnetd is gone, it has not said why: %w", syscall.EPIPE)
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
