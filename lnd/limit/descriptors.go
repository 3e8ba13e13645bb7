package limit

import (
	"fmt"
	"syscall"
)

// DescriptorReserve returns how many file descriptors the connections to peers must leave free for the
// rest of the process, such as its control socket. It is a quarter of the descriptor limit, but at most
// 2048, since the rest of the process never uses more. Go's runtime has raised the soft limit to the
// hard limit.
func DescriptorReserve() int {
	const share, most = 4, 2048
	return min(descriptorLimit()/share, most)
}

func descriptorLimit() int {
	const largest = 1 << 30
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return largest
	}
	return int(min(l.Cur, largest))
}

// CheckDescriptor returns a *DescriptorError if fd, the descriptor of a connection to a peer, lies in
// the reserve. The kernel always assigns the lowest free descriptor, so all lower ones are then in use.
func CheckDescriptor(fd int) error { return checkDescriptor(fd, DescriptorReserve(), "peers") }

// CheckClientDescriptor is like CheckDescriptor for a descriptor used by a transfer machine of another
// process. Such descriptors may use a quarter of the reserve; the rest remains for the control socket
// and the metrics.
func CheckClientDescriptor(fd int) error {
	return checkDescriptor(fd, DescriptorReserve()*3/4, "clients")
}

func checkDescriptor(fd, reserve int, users string) error {
	if limit := descriptorLimit(); fd >= limit-reserve {
		return &DescriptorError{Limit: limit, Reserve: reserve, users: users}
	}
	return nil
}

// DescriptorError means that a descriptor was closed because only the reserve is left. It unwraps to
// EMFILE.
type DescriptorError struct {
	Limit, Reserve int
	users          string // for which the reserve may not be used
}

func (e *DescriptorError) Error() string {
	return fmt.Sprintf("%d file descriptors are in use, and the last %d of %d are not for %s", e.Limit-e.Reserve, e.Reserve, e.Limit, e.users)
}

// Unwrap returns EMFILE.
func (e *DescriptorError) Unwrap() error { return syscall.EMFILE }
