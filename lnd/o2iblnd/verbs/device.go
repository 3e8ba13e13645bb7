package verbs

import "time"

// Device is one RDMA device, opened by a provider, with one protection domain.
type Device interface {
	// Attr returns the device's attributes, which never change.
	Attr() DeviceAttr
	// Port returns the current state of a port. Ports are counted from 1.
	Port(n int) (PortAttr, error)
	// Events waits for device events and returns how many it has stored in ev, like Channel.Events.
	Events(ev []AsyncEvent) (int, error)
	// Alloc allocates zeroed memory outside of Go's heap and registers it. If huge is set, it uses huge pages
	// if the system has any. It returns ErrLocked if the limit of locked memory is too low.
	Alloc(size int, huge bool, a Access) (Memory, error)
	// Register registers b. The memory must neither move nor be freed until Close. It may be mapped memory, the
	// Memory of another device, or memory of the program. Register returns ErrLocked if the limit of locked
	// memory is too low, and EFAULT if the memory is not accessible.
	Register(b []byte, a Access) (Memory, error)
	// NewCQ creates a queue for at least entries completions. vector is the number of the completion vector
	// (interrupt) that it uses, modulo the number of vectors. The sum of Sends and Recvs of all queue pairs on
	// the queue must not exceed entries. If the queue overflows, these queue pairs are lost.
	NewCQ(entries, vector int) (CQ, error)
	// Close closes the device for all its users, and makes Events return. It returns EBUSY, and the device
	// stays open, if memory, queues or IDs on the device are left. An ID that is created later opens the device
	// again.
	Close() error
}

// DeviceAttr is the capabilities of a device.
type DeviceAttr struct {
	Name      string // for example "mlx5_0"
	Ports     int    // number of ports
	MaxQP     int    // queue pairs
	MaxWR     int    // requests, and receives, per queue pair
	MaxPieces int    // pieces of memory in a request
	MaxCQ     int    // completion queues
	MaxCQE    int    // entries of a completion queue
	MaxMR     int    // registrations
	MaxMemory uint64 // bytes of registered memory
	Vectors   int    // completion vectors
}

// PortAttr is the state of a port.
type PortAttr struct {
	State    PortState
	MTU      int  // MTU in use, in bytes
	Ethernet bool // RoCE; otherwise InfiniBand
}

// PortState is the link state of a port. The numbers are those of libibverbs.
type PortState uint32

// A port carries traffic only when it is active.
const (
	PortDown   PortState = 1
	PortActive PortState = 4
)

// Access is a set of accesses that a registration allows. Reading by the local device is always allowed. The
// bits are those of libibverbs.
type Access uint32

// AccessLocalWrite is required for memory that receives messages, and together with AccessRemoteWrite for
// memory that peers write to.
const (
	AccessRead        Access = 0
	AccessLocalWrite  Access = 1
	AccessRemoteWrite Access = 2
)

// Memory is registered memory.
type Memory interface {
	Bytes() []byte
	// Addr returns the address of the first byte that queue pairs and peers use. It may differ from the address
	// of Bytes.
	Addr() uint64
	// LKey returns the key for Piece and Recv, and RKey the key for the peer.
	LKey() uint32
	RKey() uint32
	// Close ends the registration, and frees the memory if Alloc has allocated it. No queue pair may use the
	// memory any more, unless the queue pair is destroyed.
	Close() error
}

// MaxDefer is the maximum time for which Wait sleeps although a request has completed.
const MaxDefer = 100 * time.Millisecond

// CQ is a completion queue. Many queue pairs may share it.
type CQ interface {
	// Poll stores completions in wc and returns their number, without waiting.
	Poll(wc []Completion) (int, error)
	// Wait waits until there are completions, stores them in wc and returns their number. spin is how long it
	// may poll before it sleeps (package polling). It makes no crossing while it sleeps. Only one call may run at a
	// time. It returns ErrClosed if the queue is closed.
	Wait(wc []Completion, spin time.Duration) (int, error)
	// Defer sets whether completions of requests are deferred, which they are not at first. Deferred ones do not
	// wake Wait, nor end its polling. It returns them with the next completion of a receive, or after MaxDefer. If a request fails,
	// the receives of its queue pair complete too, so that failures are not deferred. After Defer(false) has
	// returned, requests that are posted later wake Wait. Defer rarely makes a crossing, and does not block.
	Defer(on bool)
	// Entries returns the capacity of the queue.
	Entries() int
	// Close closes the queue and makes Wait return. It returns EBUSY, and the queue stays open, if queue pairs
	// still use it.
	Close() error
}
