package verbs

import (
	"errors"
	"fmt"
	"syscall"
)

// What calls fail with beside errnos. Those of Open say what to install.
var (
	// ErrClosed: the object, or what it belongs to, was closed or destroyed.
	ErrClosed = errors.New("closed")
	// ErrNotBuilt: the program has no part for RDMA hardware.
	ErrNotBuilt = errors.New("built without support for RDMA: build with CGO_ENABLED=1 and `-tags o2ib` " +
		"(Debian packages gcc, libibverbs-dev, librdmacm-dev), and install rdma-core " +
		"(Debian packages libibverbs1, librdmacm1, ibverbs-providers)")
	// ErrNoLibrary: rdma-core is not installed.
	ErrNoLibrary = errors.New("rdma-core is not installed: install libibverbs, librdmacm and the providers " +
		"(Debian packages libibverbs1, librdmacm1, ibverbs-providers)")
	// ErrNoRDMA: the kernel has no RDMA connection manager for this process.
	ErrNoRDMA = errors.New("no access to /dev/infiniband/rdma_cm: load the modules rdma_ucm and ib_uverbs " +
		"and the device's own (soft-RoCE: rdma_rxe, then `rdma link add rxe0 type rxe netdev eth0`), " +
		"and let the process open /dev/infiniband")
	// ErrNoDevice: the local address belongs to no RDMA device.
	ErrNoDevice = errors.New("the address belongs to no RDMA device: `rdma link` lists those there are " +
		"(soft-RoCE: `rdma link add rxe0 type rxe netdev eth0`)")
	// ErrLocked: memory may not be pinned.
	ErrLocked = errors.New("the limit of locked memory is too low: raise it (systemd: LimitMEMLOCK=infinity), " +
		"or give CAP_IPC_LOCK")
)

// Wrap says what was attempted on what; nil stays nil. It is for implementations.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("verbs: %s: %w", fmt.Sprintf(format, args...), err)
}

// Full tells whether a Post, or the making of a queue, failed for want of room: it
// works later, or smaller.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOSPC)
}
