package verbs

import "time"

// Device is one RDMA device as a provider has opened it, with one protection domain.
type Device interface {
	// Attr is constant.
	Attr() DeviceAttr
	// Port asks for a port's present state; ports are counted from 1.
	Port(n int) (PortAttr, error)
	// Events waits for device events, as Channel.Events does.
	Events(ev []AsyncEvent) (int, error)
	// Alloc makes memory outside of Go's heap, zeroed and registered; huge asks for
	// huge pages and makes do without. ErrLocked.
	Alloc(size int, huge bool, a Access) (Memory, error)
	// Register registers b, which stays in place and in use until Close: mapped
	// memory, another device's Memory, or a program's own. ErrLocked, EFAULT.
	Register(b []byte, a Access) (Memory, error)
	// NewCQ makes a queue for at least entries completions, which belongs to the completion
	// vector, modulo how many there are. The sum of Sends and Recvs of all its queue
	// pairs must not exceed entries: who overflows it loses them.
	NewCQ(entries, vector int) (CQ, error)
	// Close ends the device for all that use it, and its Events. EBUSY: memory, queues or IDs
	// are left; it goes on. An ID made later opens it anew.
	Close() error
}

// DeviceAttr is what a device can do.
type DeviceAttr struct {
	Name      string // "mlx5_0"
	Ports     int
	MaxQP     int // queue pairs
	MaxWR     int // requests, and receives, of one
	MaxPieces int // of memory in a request
	MaxCQ     int // completion queues
	MaxCQE    int // entries of one
	MaxMR     int // registrations
	MaxMemory uint64
	Vectors   int // completion vectors
}

// PortAttr is a port's state.
type PortAttr struct {
	State    PortState
	MTU      int  // in use, bytes
	Ethernet bool // RoCE; else InfiniBand
}

// PortState is a port's state; the numbers are those of verbs.
type PortState uint32

// Ports carry traffic when they are active.
const (
	PortDown   PortState = 1
	PortActive PortState = 4
)

// Access is what a registration allows beside local reading; the bits are libibverbs'.
type Access uint32

// Memory that is received into, or that peers write to, is written locally too.
const (
	AccessRead        Access = 0
	AccessLocalWrite  Access = 1
	AccessRemoteWrite Access = 2
)

// Memory is registered memory.
type Memory interface {
	Bytes() []byte
	// Addr is the address of the first byte as queue pairs and peers name it, which
	// need not be that of Bytes.
	Addr() uint64
	// LKey goes into Piece and Recv, RKey to the peer.
	LKey() uint32
	RKey() uint32
	// Close ends the registration, and with it Bytes of an Alloc. It must not be in
	// use by a queue pair that is not destroyed.
	Close() error
}

// CQ is a queue of completions, shared by many queue pairs.
type CQ interface {
	// Poll harvests without waiting.
	Poll(wc []Completion) (int, error)
	// Wait harvests, and waits until there is something, without a crossing while it does. It has
	// one caller at a time. spin is how long it may look on before it sleeps
	// (Spin). ErrClosed: the queue is closed.
	Wait(wc []Completion, spin time.Duration) (int, error)
	// Entries is how many completions it holds.
	Entries() int
	// Close ends the queue and a Wait. EBUSY: queue pairs are left that use it; it
	// goes on.
	Close() error
}
