package verbs

import (
	"net/netip"
	"time"
)

// Provider is the RDMA of one process. All methods of all interfaces in this package are safe for
// concurrent use, unless documented otherwise.
//
// A device that is being removed disappears after all processes have closed it. Its IDs get
// EventDeviceRemoval, or Device.Events returns AsyncDeviceFatal. Opening any provider of the process
// checks for such devices. It reports them, and releases those that are not in use.
type Provider interface {
	// OpenChannel opens a channel for connection events.
	OpenChannel() (Channel, error)
	// Crossings returns the counters.
	Crossings() Crossings
	// Close closes the provider. It returns EBUSY, and the provider stays open, if something that it
	// created is left.
	Close() error
}

// Crossings counts the calls that leave Go, for example to relate them to the number of messages. The
// fabric in memory counts the calls that would have left Go.
type Crossings struct {
	Polls  uint64 // polls for completions, including empty ones
	Posts  uint64 // Post
	Sleeps uint64 // times that Wait found no completion and slept; not crossings
	Events uint64 // polls for connection and device events
	Others uint64 // everything else: connecting, memory, queues
}

// Data returns the crossings of the data path.
func (c Crossings) Data() uint64 { return c.Polls + c.Posts }

// Sub returns the difference to an earlier count.
func (c Crossings) Sub(before Crossings) Crossings {
	return Crossings{c.Polls - before.Polls, c.Posts - before.Posts, c.Sleeps - before.Sleeps, c.Events - before.Events, c.Others - before.Others}
}

// Channel delivers connection events of the IDs created on it.
type Channel interface {
	// Listen creates an ID that receives connection requests to addr, which is an address of a local
	// device and not a wildcard. backlog is the largest number of requests that wait for Events. Further
	// ones are rejected. Errors are EADDRINUSE, EADDRNOTAVAIL, EACCES (a port below 1024 without
	// CAP_NET_BIND_SERVICE) and ErrNoDevice.
	Listen(addr netip.AddrPort, backlog int) (ID, error)
	// Dial creates an ID and starts to resolve the peer's address. EventAddrResolved or EventAddrError
	// follows. Errors are those of Listen.
	Dial(Dial) (ID, error)
	// Events waits for events and returns how many it has written to ev. It may have one caller at a
	// time. It returns ErrClosed if the channel is closed.
	Events(ev []Event) (int, error)
	// Close closes the channel and ends Events. It returns EBUSY, and the channel stays open, if IDs are
	// left.
	Close() error
}

// Dial is the parameters of Channel.Dial.
type Dial struct {
	From netip.Addr     // a local address; required
	To   netip.AddrPort // required
	// Privileged selects a source port below 1024: the highest free one (o2iblnd 3.2). Many IDs may share
	// it.
	Privileged bool
	// Timeout is the time limit for resolving the address.
	Timeout time.Duration
	// TOS is the type of service plus 1. 0 keeps the system's default.
	TOS int
}

// Sizes of private data (o2iblnd 3.5).
const (
	MaxConnectPrivate = 56
	MaxRejectPrivate  = 148
	MaxAcceptPrivate  = 196
)

// ConnParam is the parameters of Connect and Accept (o2iblnd 3.4). RDMA READ and atomics are not
// requested. The callee keeps no reference to it.
type ConnParam struct {
	// Private is at most MaxConnectPrivate or MaxAcceptPrivate bytes. If it is longer, the call returns
	// EINVAL.
	Private []byte
	// Retries is how often a packet is retransmitted without an acknowledgement, 0 to 7. The value of
	// Connect applies to both sides.
	Retries uint8
	// RNRRetries is how often the other side retransmits a message that found no posted receive, 0 to 6.
	// 7 means without limit.
	RNRRetries uint8
}

// ID is one end of a connection, with its queue pair, or a listener.
//
// The order on the dialling side is: Dial, EventAddrResolved, ResolveRoute, EventRouteResolved, CreateQP,
// Post of receives, Connect, then EventEstablished or EventRejected. On the listening side it is:
// EventConnectRequest, then either CreateQP, Post of receives, Accept, EventEstablished; or Reject,
// Destroy.
type ID interface {
	// SetOwner attaches a value of the driver to the ID. Owner returns it.
	SetOwner(owner any)
	Owner() any
	// Local and Remote return the addresses. A listener has no remote address.
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Device returns the device and the port that the ID is bound to. All IDs of a provider on a device
	// return the same object. A listener is bound at once, an ID that dials from EventAddrResolved on.
	// Before that, Device returns ENODEV.
	Device() (Device, int, error)
	// ResolveRoute starts the next step after EventAddrResolved. EventRouteResolved or EventRouteError
	// follows.
	ResolveRoute(timeout time.Duration) error
	// CreateQP creates the ID's queue pair. It sets q to the actual sizes, which are at least the
	// requested ones. It returns ENOMEM or EINVAL if the device cannot create one that large.
	CreateQP(q *QP) error
	// QPN returns the number of the queue pair, or 0 before CreateQP.
	QPN() uint32
	// Connect sends a request, and Accept answers one. Reject rejects one with at most MaxRejectPrivate
	// bytes, after which the caller must destroy the ID. They return EINVAL in a wrong state or if the
	// private data is too long. Accept also returns EINVAL if the dialling side has given up, which no
	// event reports.
	Connect(ConnParam) error
	Accept(ConnParam) error
	Reject(private []byte) error
	// Established informs the connection manager that a message from the peer has arrived: after
	// AsyncCommEst, or after a message before EventEstablished. The manager then delivers
	// EventEstablished if it has not done so. Established returns EINVAL if the ID is not connected.
	Established() error
	// Disconnect puts the queue pair into the error state, which flushes everything posted, and notifies
	// the peer. Both sides get EventDisconnected. Call it also after EventDisconnected has come. It
	// returns EINVAL if there is no connection.
	Disconnect() error
	// Fail puts the queue pair into the error state without notice to the peer.
	Fail() error

	// Post posts receives, and then a chain of requests with the pieces of memory that they refer to, in
	// one crossing. It returns how many of both were posted. They are fewer only with an error, which is
	// ENOMEM if the queue is full. Post keeps no reference to the slices. The caller must order calls
	// whose order matters. Requests may be posted from EventEstablished on. Anything posted after an
	// error is flushed or discarded.
	//
	// Slots of the send queue become free when a completion of that request, or of a later one, has been
	// polled.
	Post(recvs []Recv, requests []Request, pieces []Piece) (nrecvs, nrequests int, err error)

	// Destroy destroys the ID and its queue pair. After it returns there are no more events, and neither
	// side accesses memory. Posted work is not flushed, but earlier completions may still be polled. A
	// connected peer gets EventDisconnected. A peer that waits for an answer gets EventRejected. Destroy
	// may wait for a running Events, but not for the network.
	Destroy()
}

// QP is the size of a queue pair, and the queue of its completions. Requests without FlagSignalled have a
// completion only if they fail.
type QP struct {
	CQ         CQ
	Sends      int // requests that can be posted
	Recvs      int // receives that can be posted
	SendPieces int // pieces of memory per request; a receive has one piece
	Inline     int // largest number of bytes of a request with FlagInline
}
