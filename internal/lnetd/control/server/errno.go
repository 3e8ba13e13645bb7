package server

import (
	"errors"
	"syscall"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

// Errno returns the Linux error number that lnetctl prints for err. Unlike api.Errno, it also knows the
// errors of the packages of the node. If err wraps an error number, it returns that. An exception is
// lnd.ErrUnreachable, the error while the driver waits before it reconnects, for which it returns EIO, as
// kernels do (socklnd 15.2). It returns 0 only if err is nil.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if errors.Is(err, lnd.ErrUnreachable) {
		return syscall.EIO
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != 0 {
		return errno
	}
	for _, m := range errnoOf {
		if errors.Is(err, m.err) {
			return m.errno
		}
	}
	return api.Errno(err)
}

var errnoOf = []struct {
	err   error
	errno syscall.Errno
}{
	{node.ErrUnreachable, syscall.EHOSTUNREACH},
	{node.ErrTimedOut, syscall.ETIMEDOUT},
	{node.ErrClosed, syscall.ESHUTDOWN},
	{node.ErrInvalid, syscall.EINVAL},
	{node.ErrExists, syscall.EEXIST},
	{node.ErrTooMany, syscall.ENOSPC},
	{node.ErrNotFound, syscall.ENOENT},
	{node.ErrPortalClass, syscall.EPERM},
	{node.ErrCanceled, syscall.ECANCELED},
	{node.ErrShortReply, syscall.EPROTO},
	{node.ErrBusy, syscall.EBUSY},
	{discovery.ErrInvalid, syscall.EINVAL},
	{discovery.ErrPermission, syscall.EPERM},
	{discovery.ErrNotFound, syscall.ENOENT},
	{discovery.ErrNotPrimary, syscall.ENODEV},
	{discovery.ErrExists, syscall.EEXIST},
	{discovery.ErrLocked, syscall.EALREADY},
	{discovery.ErrOtherPeer, syscall.ECHILD},
	{discovery.ErrBusy, syscall.EBUSY},
	{discovery.ErrNotUnique, syscall.ENOTUNIQ},
	{discovery.ErrNoPeer, syscall.ENETRESET},
	{discovery.ErrPingFailed, syscall.EHOSTUNREACH},
	{discovery.ErrUnderWay, syscall.EALREADY},
	{discovery.ErrAgain, syscall.EAGAIN},
	{discovery.ErrClosed, syscall.ESHUTDOWN},
	{discovery.ErrCanceled, syscall.ECANCELED},
	{discovery.ErrTimedOut, syscall.ETIMEDOUT},
	{discovery.ErrBadInfo, syscall.EPROTO},
	{selection.ErrSource, syscall.EINVAL},
	{selection.ErrInconsistent, syscall.EFAULT},
	{selection.ErrExists, syscall.EALREADY},
	{selection.ErrNotFound, syscall.ENOENT},
	{selection.ErrInvalid, syscall.EINVAL},
	{fault.ErrInvalid, syscall.EINVAL},
	{lnd.ErrTimeout, syscall.ETIMEDOUT},
	{lnd.ErrProtocol, syscall.EPROTO},
	{lnd.ErrClosed, syscall.ESHUTDOWN},
	{lnd.ErrDisconnected, syscall.EIO},
}
