package daemon

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

// highestPrivileged is the highest port that secure acceptors take callers
// from.
const highestPrivileged = 1023

// mayUsePrivilegedPorts tries to have one.
func mayUsePrivilegedPorts() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true // the real attempt will tell
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: highestPrivileged, Addr: [4]byte{127, 0, 0, 1}})
	return !errors.Is(err, syscall.EACCES)
}

// acceptLikes makes a node without privileges, which calls from ports above
// 1023 and was told to listen above them too, accept its likes. Kernel nodes
// do not call it in any case.
func acceptLikes(c *config.Config, privileged func() bool) bool {
	if c.AcceptGiven || c.Socklnd.Accept != socklnd.AcceptSecure ||
		c.Socklnd.AcceptPort <= highestPrivileged || privileged() {
		return false
	}
	c.Socklnd.Accept = socklnd.AcceptAll
	return true
}
