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

// silent is why an lnetd is given up that has not answered for so long, and said nothing else.
func silent(d time.Duration) error {
	return fmt.Errorf("it has not answered for %v, though it runs or is stopped: %w", d, syscall.ETIMEDOUT)
}

// farewell is why nothing will be answered any more: what lnetd has announced, if it has,
// and what was found, nil if that is no more than its end. It is EPIPE (transport 3.5).
func farewell(n *protocol.Notice, err error) error {
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

// failed is what an op came to that lnetd has carried out. It is an errno below 256, most
// likely, so that none is allocated.
type failed syscall.Errno

func (e failed) Error() string { return "lnetd: " + syscall.Errno(e).Error() }

// Unwrap is the errno.
func (e failed) Unwrap() error { return syscall.Errno(e) }

// refused is why lnetd has not begun with an op.
type refused syscall.Errno

func (e refused) Error() string {
	return "lnetd has refused the operation: " + syscall.Errno(e).Error()
}

// Unwrap is the errno.
func (e refused) Unwrap() error { return syscall.Errno(e) }

// gone tells whether an error is that of a connection that is over.
func gone(err error) bool { return errors.Is(err, syscall.EPIPE) }
