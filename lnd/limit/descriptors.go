package limit

import (
	"fmt"
	"syscall"
)

// DescriptorReserve returns how many file descriptors connections to peers must leave free for the rest of the
// process, such as its control socket. It is a quarter of the process's limit, but at most 2048, because the
// rest never uses more. Go's runtime has raised the soft limit to the hard limit.
func DescriptorReserve() int {
	const share, most = 4, 2048
	return min(descriptorLimit()/share, most)
}

// descriptorLimit returns the maximum number of file descriptors of the process.
func descriptorLimit() int {
	const largest = 1 << 30
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return largest
	}
	return int(min(l.Cur, largest))
}

// CheckDescriptor returns a *DescriptorError if a connection to a peer must not use the descriptor fd, because
// only the reserve is left. It compares numbers: the kernel always assigns the lowest free descriptor, so all
// lower ones are in use.
func CheckDescriptor(fd int) error { return checkDescriptor(fd, DescriptorReserve(), "peers") }

// CheckClientDescriptor is CheckDescriptor for a descriptor that a transfer machine of another process uses.
// Such descriptors may also use a quarter of the reserve. The rest of it remains for the control socket and the
// metrics.
func CheckClientDescriptor(fd int) error {
	return checkDescriptor(fd, DescriptorReserve()*3/4, "clients")
}

func checkDescriptor(fd, reserve int, users string) error {
	if limit := descriptorLimit(); fd >= limit-reserve {
		return &DescriptorError{Limit: limit, Reserve: reserve, users: users}
	}
	return nil
}

// DescriptorError means that a descriptor must not be used because only the reserve is left. It unwraps to
// EMFILE.
type DescriptorError struct {
	Limit, Reserve int
	users          string // who must not use the reserve
}

func (e *DescriptorError) Error() string {
	return fmt.Sprintf("%d file descriptors are in use, and the remaining %d of %d are not available to %s", e.Limit-e.Reserve, e.Reserve, e.Limit, e.users)
}

// Unwrap returns EMFILE.
func (e *DescriptorError) Unwrap() error { return syscall.EMFILE }
