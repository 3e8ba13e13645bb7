package limit

import (
	"fmt"
	"syscall"
)

// DescriptorReserve returns how many file descriptors connections to peers leave free for the
// rest of the process, such as its control socket: a quarter of the limit, and no more than
// all of the rest may use. Go's runtime has raised the limit to the hard one.
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

// CheckDescriptor returns a *DescriptorError if a connection to a peer has a descriptor of the
// reserve. The kernel gives out the lowest that is free: all below are in use then.
func CheckDescriptor(fd int) error { return checkDescriptor(fd, DescriptorReserve(), "peers") }

// CheckClientDescriptor is CheckDescriptor for a descriptor that a transfer machine of another
// process takes: those leave three quarters of the reserve to the control socket and the metrics.
func CheckClientDescriptor(fd int) error {
	return checkDescriptor(fd, DescriptorReserve()*3/4, "clients")
}

func checkDescriptor(fd, reserve int, users string) error {
	if limit := descriptorLimit(); fd >= limit-reserve {
		return &DescriptorError{Limit: limit, Reserve: reserve, users: users}
	}
	return nil
}

// DescriptorError says that a descriptor was closed because all are in use but the reserve.
// It is EMFILE.
type DescriptorError struct {
	Limit, Reserve int
	users          string // that the reserve is not for
}

func (e *DescriptorError) Error() string {
	return fmt.Sprintf("%d file descriptors are in use, and the last %d of %d are not for %s", e.Limit-e.Reserve, e.Reserve, e.Limit, e.users)
}

// Unwrap returns EMFILE.
func (e *DescriptorError) Unwrap() error { return syscall.EMFILE }
