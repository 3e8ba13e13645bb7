package verbs

import (
	"net/netip"
	"time"
)

// Provider is a process's access to RDMA. All methods of all interfaces in this package are safe for concurrent
// use, unless documented otherwise.
//
// A device that the kernel is removing disappears only when all processes have closed it. The driver is
// notified by EventDeviceRemoval for each ID, or by AsyncDeviceFatal from Device.Events. Whenever a provider is
// opened, all devices that the process has open are checked: removed ones are reported in this way, and those
// that are not in use are closed.
type Provider interface {
	// OpenChannel opens a channel for connection events.
	OpenChannel() (Channel, error)
	// Crossings returns the numbers of calls that have left Go.
	Crossings() Crossings
	// Close closes the provider. It returns EBUSY, and the provider stays open, if a device or a channel is
	// left.
	Close() error
}

// Crossings counts the calls that leave Go, for example to compare them with the number of messages. The fabric
// in memory counts the calls that would leave Go if it were hardware.
type Crossings struct {
	Polls  uint64 // polls for completions, including empty ones, and requests for notification
	Posts  uint64 // calls of Post
	Sleeps uint64 // times that Wait found no completion and slept; not crossings
	Events uint64 // polls for connection and device events
	Others uint64 // everything else: connecting, memory, queues
}

// Data returns the number of crossings that send or receive data.
func (c Crossings) Data() uint64 { return c.Polls + c.Posts }

// Sub returns the difference between c and an earlier count.
func (c Crossings) Sub(before Crossings) Crossings {
	return Crossings{c.Polls - before.Polls, c.Posts - before.Posts, c.Sleeps - before.Sleeps, c.Events - before.Events, c.Others - before.Others}
}

// Channel delivers the connection events of the IDs that are created on it.
type Channel interface {
	// Listen creates an ID that receives the connection requests to addr, which must be an address of a local
	// device and not a wildcard. At most backlog requests wait to be fetched by Events; further ones are
	// rejected. Errors are EADDRINUSE, EADDRNOTAVAIL, EACCES (for a port below 1024 without
	// CAP_NET_BIND_SERVICE) and ErrNoDevice.
	Listen(addr netip.AddrPort, backlog int) (ID, error)
	// Dial creates an ID and starts to resolve the peer's address. The event EventAddrResolved or
	// EventAddrError follows. Dial returns the same errors as Listen.
	Dial(Dial) (ID, error)
	// Events waits for events, stores them in ev and returns their number. Only one call may run at a time. It
	// returns ErrClosed if the channel is closed.
	Events(ev []Event) (int, error)
	// Close closes the channel and makes Events return. It returns EBUSY, and the channel stays open, if IDs
	// are left.
	Close() error
}

// Dial is the parameters of Channel.Dial.
type Dial struct {
	From netip.Addr     // a local address; required
	To   netip.AddrPort // required
	// Privileged selects the highest source port below 1024 that is free (o2iblnd 3.2). Many IDs may share a
	// port.
	Privileged bool
	// Timeout is how long resolving the address may take.
	Timeout time.Duration
	// TOS is the type of service plus 1. 0 selects the system's default.
	TOS int
}

// Sizes of private data (o2iblnd 3.5).
const (
	MaxConnectPrivate = 56
	MaxRejectPrivate  = 148
	MaxAcceptPrivate  = 196
)

// ConnParam is the parameters of Connect and Accept (o2iblnd 3.4), which keep no reference to it. RDMA READ and
// atomics are not requested.
type ConnParam struct {
	// Private is the private data for the peer: at most MaxConnectPrivate bytes for Connect, and
	// MaxAcceptPrivate for Accept. If it is longer, the call returns EINVAL.
	Private []byte
	// Retries is how often a packet is retransmitted for which no acknowledgement arrives, 0 to 7. The value of
	// Connect applies to both sides.
	Retries uint8
	// RNRRetries is how often the other side retransmits a message for which this side has posted no receive, 0
	// to 6. 7 means without limit.
	RNRRetries uint8
}

// ID is either one end of a connection, with its queue pair, or a listener.
//
// A side that opens a connection calls and receives in this order: Dial, EventAddrResolved, ResolveRoute,
// EventRouteResolved, CreateQP, Post of receives, Connect, and then EventEstablished or EventRejected. The
// other side receives EventConnectRequest. To accept, it then calls CreateQP, Post of receives and Accept, and
// receives EventEstablished. To reject, it calls Reject and Destroy.
type ID interface {
	// SetOwner attaches a value of the driver to the ID, which Owner returns.
	SetOwner(owner any)
	Owner() any
	// Local and Remote return the addresses of the two ends. A listener has no remote address.
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Device returns the device and the port that the ID is bound to. For all IDs of a provider on the same
	// device, it returns the same object. A listener is always bound. An ID from Dial is bound when
	// EventAddrResolved arrives; before that, Device returns ENODEV.
	Device() (Device, int, error)
	// ResolveRoute starts to resolve the route to the peer, after EventAddrResolved. The event
	// EventRouteResolved or EventRouteError follows.
	ResolveRoute(timeout time.Duration) error
	// CreateQP creates the ID's queue pair. It sets the sizes in q to the actual ones, which are at least the
	// requested ones. It returns ENOMEM or EINVAL if the device cannot create a queue pair of this size.
	CreateQP(q *QP) error
	// QPN returns the number of the queue pair, or 0 before CreateQP.
	QPN() uint32
	// Connect sends a connection request, and Accept accepts the received one. Reject rejects it, with at most
	// MaxRejectPrivate bytes for the peer; the caller must then destroy the ID. These methods return EINVAL in
	// a wrong state, or if the private data is too long. Accept also returns EINVAL if the other side no longer
	// waits for the answer, for which there is no event.
	Connect(ConnParam) error
	Accept(ConnParam) error
	Reject(private []byte) error
	// Established informs the connection manager that a message from the peer has arrived. The driver calls it
	// after AsyncCommEst, or if a message arrives before EventEstablished. If EventEstablished was not
	// delivered yet, this follows. Established returns EINVAL if the ID is not connected.
	Established() error
	// Disconnect puts the queue pair into the error state, which flushes everything that is posted, and
	// notifies the peer. Both sides get EventDisconnected. A side that has got this event must call Disconnect
	// too. Disconnect returns EINVAL if the ID has no connection.
	Disconnect() error
	// Fail puts the queue pair into the error state without notifying the peer.
	Fail() error

	// Post posts receives, and then a chain of requests, in one crossing. The requests refer to pieces by
	// index. Post returns how many receives and requests it has posted; these are all of them unless it returns
	// an error, which is ENOMEM if a queue is full. It keeps no reference to the slices. If the order of
	// several calls matters, the caller must order them. Requests may be posted after EventEstablished.
	// Anything that is posted after an error is flushed or discarded.
	//
	// A slot of the send queue becomes free when the completion of its request, or of a later one, has been
	// polled.
	Post(recvs []Recv, requests []Request, pieces []Piece) (nrecvs, nrequests int, err error)

	// Destroy destroys the ID and its queue pair. When it returns, no more events will be delivered, and
	// neither side accesses memory through the queue pair. Posted work is not flushed, but earlier completions
	// may still be polled. A connected peer gets EventDisconnected. A peer that waits for an answer gets
	// EventRejected. Destroy may wait for a running call of Events, but not for the network.
	Destroy()
}

// QP is the size of a queue pair, and the queue for its completions. A request without FlagSignalled has a
// completion only if it fails.
type QP struct {
	CQ         CQ
	Sends      int // requests that can be posted
	Recvs      int // receives that can be posted
	SendPieces int // pieces of memory per request; a receive has one piece
	Inline     int // largest number of bytes of a request with FlagInline
}
