package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

func TestErrno(t *testing.T) {
	driver := func(err error) error {
		return fmt.Errorf("ping: %w", &lnd.Error{Driver: "socklnd", Op: "connect", Status: lnd.StatusLocalError, Err: err})
	}
	tests := []struct {
		name string
		err  error
		want syscall.Errno
	}{
		{"nil", nil, 0},
		{"refused", driver(os.NewSyscallError("connect", syscall.ECONNREFUSED)), syscall.ECONNREFUSED},
		{"no host", driver(syscall.EHOSTUNREACH), syscall.EHOSTUNREACH},
		{"no net", driver(syscall.ENETUNREACH), syscall.ENETUNREACH},
		{"reset", driver(syscall.ECONNRESET), syscall.ECONNRESET},
		{"driver's timeout", driver(lnd.ErrTimeout), syscall.ETIMEDOUT},
		{"request's deadline", fmt.Errorf("ping: %w", context.DeadlineExceeded), syscall.ETIMEDOUT},
		{"stopped", context.Canceled, syscall.ECANCELED},
		{"protocol", driver(lnd.ErrProtocol), syscall.EPROTO},
		{"back-off", driver(fmt.Errorf("%w: %w", lnd.ErrUnreachable, syscall.EHOSTUNREACH)), syscall.EIO},
		{"lost", driver(lnd.ErrDisconnected), syscall.EIO},
		{"closed", driver(lnd.ErrClosed), syscall.ESHUTDOWN},
		{"driver's timeout with its number", driver(fmt.Errorf("%w: %w", lnd.ErrTimeout, syscall.ETIMEDOUT)), syscall.ETIMEDOUT},
		{"no path", fmt.Errorf("ping: %w", node.ErrUnreachable), syscall.EHOSTUNREACH},
		{"node's timeout", node.ErrTimedOut, syscall.ETIMEDOUT},
		{"node is closed", node.ErrClosed, syscall.ESHUTDOWN},
		{"argument", node.ErrInvalid, syscall.EINVAL},
		{"NID twice", node.ErrExists, syscall.EEXIST},
		{"NIs", node.ErrTooMany, syscall.ENOSPC},
		{"NI missing", node.ErrNotFound, syscall.ENOENT},
		{"short", node.ErrShortReply, syscall.EPROTO},
		{"routing stops", node.ErrBusy, syscall.EBUSY},
		{"gateway", &discovery.PeerError{Op: "delete", Err: discovery.ErrBusy}, syscall.EBUSY},
		{"unknown peer", &discovery.PeerError{Err: discovery.ErrNotFound}, syscall.ENOENT},
		{"not the primary NID", &discovery.PeerError{Err: discovery.ErrNotPrimary}, syscall.ENODEV},
		{"locked peer", &discovery.PeerError{Err: discovery.ErrLocked}, syscall.EALREADY},
		{"ping of a discovery", discovery.ErrPingFailed, syscall.EHOSTUNREACH},
		{"discovery's timeout", discovery.ErrTimedOut, syscall.ETIMEDOUT},
		{"rule twice", selection.ErrExists, syscall.EALREADY},
		{"rule missing", selection.ErrNotFound, syscall.ENOENT},
		{"rule", selection.ErrInvalid, syscall.EINVAL},
		{"fault rule", fault.ErrInvalid, syscall.EINVAL},
		{"unknown", errors.New("what"), syscall.EIO},
	}
	for _, tt := range tests {
		if got := Errno(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
