package verbs

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors that are not errnos. The texts of errors that Open returns say what to install.
var (
	// ErrClosed means that the object was closed or destroyed, or the object that it belongs to.
	ErrClosed = errors.New("closed")
	// ErrNotBuilt means that the program was built without support for RDMA hardware.
	ErrNotBuilt = errors.New("built without support for RDMA: build with CGO_ENABLED=1 and `-tags o2ib` " +
		"(Debian packages gcc, libibverbs-dev, librdmacm-dev), and install rdma-core " +
		"(Debian packages libibverbs1, librdmacm1, ibverbs-providers)")
	// ErrNoLibrary means that rdma-core is not installed.
	ErrNoLibrary = errors.New("rdma-core is not installed: install libibverbs, librdmacm and the providers " +
		"(Debian packages libibverbs1, librdmacm1, ibverbs-providers)")
	// ErrNoRDMA means that the process has no access to the kernel's RDMA connection manager.
	ErrNoRDMA = errors.New("no access to /dev/infiniband/rdma_cm: load the modules rdma_ucm and ib_uverbs " +
		"and the device's own (soft-RoCE: rdma_rxe, then `rdma link add rxe0 type rxe netdev eth0`), " +
		"and let the process open /dev/infiniband")
	// ErrNoDevice means that the local address belongs to no RDMA device.
	ErrNoDevice = errors.New("the address belongs to no RDMA device: `rdma link` lists those there are " +
		"(soft-RoCE: `rdma link add rxe0 type rxe netdev eth0`)")
	// ErrLocked means that the process may not lock more memory.
	ErrLocked = errors.New("the limit of locked memory is too low: raise it (systemd: LimitMEMLOCK=infinity), " +
		"or give CAP_IPC_LOCK")
)

// Wrap returns err with a text that says what was attempted. It returns nil if err is nil. It is for
// implementations of this package.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("verbs: %s: %w", fmt.Sprintf(format, args...), err)
}

// Full reports whether a call of Post, or the creation of a queue, failed because there was too little space.
// It may succeed later, or with a smaller size.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOSPC)
}
