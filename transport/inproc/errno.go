package inproc

import (
	"context"
	"errors"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Error is an error of the node with the errno that LNet has for it (transport 3.16). errors.Is matches both.
type Error struct {
	Errno syscall.Errno
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the errno and the error.
func (e *Error) Unwrap() []error { return []error{e.Errno, e.Err} }

// errnos maps errors of the node, portals and drivers to errnos. errnoOf uses the first match. So errors of a
// whole operation precede errors of a single attempt by a driver.
var errnos = []struct {
	err   error
	errno syscall.Errno
}{
	{portals.ErrCanceled, syscall.ECANCELED},
	{portals.ErrTimedOut, syscall.ETIMEDOUT},
	{portals.ErrClosed, syscall.ESHUTDOWN},
	{portals.ErrInvalid, syscall.EINVAL},
	{portals.ErrNotFound, syscall.ENOENT},
	{portals.ErrTaken, syscall.EADDRINUSE},
	{portals.ErrPortalClass, syscall.EPERM},
	{syscall.EFAULT, syscall.EFAULT}, // the memory is not mapped any more
	{node.ErrNotMade, syscall.EINVAL},
	{node.ErrInHandler, syscall.EDEADLK},
	{node.ErrUnreachable, syscall.EHOSTUNREACH},
	{node.ErrRestarted, syscall.EIO},
	{node.ErrFailNID, syscall.EIO},
	{lnd.ErrTimeout, syscall.ETIMEDOUT},
	{lnd.ErrUnreachable, syscall.EHOSTUNREACH},
	{lnd.ErrLargeNID, syscall.EHOSTUNREACH},
	{lnd.ErrRecalled, syscall.EHOSTUNREACH},
	{lnd.ErrClosed, syscall.ESHUTDOWN},
	{lnd.ErrProtocol, syscall.EIO},
	{lnd.ErrDisconnected, syscall.EIO},
	{context.Canceled, syscall.ECANCELED},
	{context.DeadlineExceeded, syscall.ETIMEDOUT},
}

// errnoOf returns the errno for an error: the one in errnos. For an error without an entry there, it returns
// the errno for the driver's status, or EIO.
func errnoOf(err error) syscall.Errno {
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	switch lnd.StatusOf(err) {
	case lnd.StatusLocalTimeout, lnd.StatusRemoteTimeout, lnd.StatusNetworkTimeout:
		return syscall.ETIMEDOUT
	case lnd.StatusLocalNoRoute, lnd.StatusRemoteDropped:
		return syscall.EHOSTUNREACH
	}
	return syscall.EIO
}

// wrap adds the result of errnoOf to err. It returns nil for nil.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Errno: errnoOf(err), Err: err}
}
