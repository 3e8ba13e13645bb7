package verbs

import "time"

// Device is one RDMA device, opened by a provider, with one protection domain.
type Device interface {
	// Attr returns the device's attributes, which do not change.
	Attr() DeviceAttr
	// Port returns the current state of a port. Ports are counted from 1.
	Port(n int) (PortAttr, error)
	// Events waits for device events, like Channel.Events.
	Events(ev []AsyncEvent) (int, error)
	// Alloc allocates zeroed, registered memory outside of Go's heap. If huge is set it uses huge pages
	// where available. It returns ErrLocked if the limit of locked memory is too low.
	Alloc(size int, huge bool, a Access) (Memory, error)
	// Register registers b, which must stay in place and in use until Close: mapped memory, another
	// device's Memory, or a program's own. It returns ErrLocked or EFAULT.
	Register(b []byte, a Access) (Memory, error)
	// NewCQ creates a queue for at least entries completions. It uses the completion vector with the
	// number vector, modulo the number of vectors. The sum of Sends and Recvs of all its queue pairs must
	// not exceed entries. If the queue overflows, the queue pairs are lost.
	NewCQ(entries, vector int) (CQ, error)
	// Close closes the device for all its users, and ends Events. It returns EBUSY, and the device stays
	// open, if memory, queues or IDs are left. An ID created later opens the device again.
	Close() error
}

// DeviceAttr is the capabilities of a device.
type DeviceAttr struct {
	Name      string // "mlx5_0"
	Ports     int
	MaxQP     int // queue pairs
	MaxWR     int // requests, and receives, per queue pair
	MaxPieces int // pieces of memory in a request
	MaxCQ     int // completion queues
	MaxCQE    int // entries of a completion queue
	MaxMR     int // registrations
	MaxMemory uint64
	Vectors   int // completion vectors
}

// PortAttr is the state of a port.
type PortAttr struct {
	State    PortState
	MTU      int  // in use, bytes
	Ethernet bool // RoCE; otherwise InfiniBand
}

// PortState is the link state of a port. The numbers are those of verbs.
type PortState uint32

// A port carries traffic only when it is active.
const (
	PortDown   PortState = 1
	PortActive PortState = 4
)

// Access is what a registration allows in addition to local reading. The bits are those of libibverbs.
type Access uint32

// AccessLocalWrite is also required for memory that receives messages or that peers write to.
const (
	AccessRead        Access = 0
	AccessLocalWrite  Access = 1
	AccessRemoteWrite Access = 2
)

// Memory is registered memory.
type Memory interface {
	Bytes() []byte
	// Addr is the address of the first byte for queue pairs and peers. It may differ from the address of
	// Bytes.
	Addr() uint64
	// LKey is the key for Piece and Recv. RKey is the key for the peer.
	LKey() uint32
	RKey() uint32
	// Close ends the registration and frees memory of Alloc. No queue pair may still use the memory,
	// unless it is destroyed.
	Close() error
}

// CQ is a completion queue. Many queue pairs may share it.
type CQ interface {
	// Poll returns completions without waiting.
	Poll(wc []Completion) (int, error)
	// Wait returns completions. It waits until there is at least one, and makes no crossing while it
	// waits. It may have one caller at a time. spin is how long it may poll before it sleeps (see Spin).
	// It returns ErrClosed if the queue is closed.
	Wait(wc []Completion, spin time.Duration) (int, error)
	// Entries is the capacity of the queue.
	Entries() int
	// Close closes the queue and ends Wait. It returns EBUSY, and the queue stays open, if queue pairs
	// still use it.
	Close() error
}
