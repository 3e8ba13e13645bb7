package control

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/node"
)

// Errno classifies err by the Linux error number that lnetctl prints for it.
// A system call's own number, where one is in the chain, is the truest, but for
// messages that found a peer in back-off: kernels turn that one into EIO
// (socklnd 15.2). 0 is returned for nil alone.
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
	return syscall.EIO
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
	{lnd.ErrTimeout, syscall.ETIMEDOUT},
	{context.DeadlineExceeded, syscall.ETIMEDOUT},
	{os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
	{lnd.ErrProtocol, syscall.EPROTO},
	{lnd.ErrClosed, syscall.ESHUTDOWN},
	{context.Canceled, syscall.ECANCELED},
	{lnd.ErrDisconnected, syscall.EIO},
}

// Strerror returns the C library's text for an error number.
func Strerror(e syscall.Errno) string {
	s := e.Error() // the same text, but in lower case
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// pingRemedies say what to look at when a ping failed.
var pingRemedies = map[syscall.Errno]string{
	syscall.EHOSTUNREACH: "check that the node is up and that both nodes have an NI on this net",
	syscall.ENETUNREACH:  "check the IP routes to the node",
	syscall.ECONNREFUSED: "check that LNet runs on the node and listens on the port that is called (988 unless configured)",
	syscall.ECONNRESET:   "check that the node has exactly this NID, and that it accepts our source port (accept: secure refuses ports above 1023)",
	syscall.ETIMEDOUT:    "check firewalls between the nodes and the load of the node",
	syscall.EIO:          "the connection was lost or a new one is not due yet; try again, and see lnetd's log",
	syscall.EPROTO:       "see lnetd's log: the node does not speak the protocol as expected",
}
