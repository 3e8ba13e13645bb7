package verbs

import (
	"net/netip"
	"time"
)

// Provider is the RDMA of one process. All methods of all interfaces of this
// package are safe for concurrent use, unless said otherwise.
//
// A device that is being removed goes when all processes have closed it. Its IDs get
// EventDeviceRemoval, or Device.Events returns AsyncDeviceFatal. Opening any provider of
// the process makes it look for such devices: it reports them, and releases those that nothing uses.
type Provider interface {
	// OpenChannel makes a channel for connection events.
	OpenChannel() (Channel, error)
	// Crossings returns the counts so far.
	Crossings() Crossings
	// Close ends the provider. EBUSY: something that it made is left; it goes on.
	Close() error
}

// Crossings counts the calls that left Go, so that they can be divided by messages.
// The fabric in memory counts what would have left it.
type Crossings struct {
	Polls  uint64 // harvests of completions, also those that found none
	Posts  uint64 // Post
	Sleeps uint64 // times that a Wait found nothing and slept; no crossings
	Events uint64 // harvests of connection and device events
	Others uint64 // everything else: connecting, memory, queues
}

// Data is what the data path crosses.
func (c Crossings) Data() uint64 { return c.Polls + c.Posts }

// Sub returns the difference to an earlier count.
func (c Crossings) Sub(before Crossings) Crossings {
	return Crossings{c.Polls - before.Polls, c.Posts - before.Posts, c.Sleeps - before.Sleeps, c.Events - before.Events, c.Others - before.Others}
}

// Channel delivers connection events of the IDs made on it.
type Channel interface {
	// Listen makes an ID that takes connection requests to addr, which is an
	// address of a local device, never a wildcard. backlog bounds the requests
	// that nobody has harvested; more are rejected. EADDRINUSE, EADDRNOTAVAIL,
	// EACCES (a port below 1024 without CAP_NET_BIND_SERVICE), ErrNoDevice.
	Listen(addr netip.AddrPort, backlog int) (ID, error)
	// Dial makes an ID and begins to resolve the peer's address: EventAddrResolved
	// or EventAddrError follows. Errors are those of Listen.
	Dial(Dial) (ID, error)
	// Events waits for events and returns how many it has written to ev. It has
	// one caller at a time. ErrClosed: the channel is closed.
	Events(ev []Event) (int, error)
	// Close ends the channel and a call of Events. EBUSY: there are IDs left; it
	// goes on.
	Close() error
}

// Dial says whom to call and from where.
type Dial struct {
	From netip.Addr     // a local address; required
	To   netip.AddrPort // required
	// Privileged takes a source port below 1024: 1023, or the next below that is free
	// (o2iblnd 3.2). Many IDs may share one.
	Privileged bool
	// Timeout bounds the resolution of the address.
	Timeout time.Duration
	// TOS is the type of service plus 1; 0 leaves the system's.
	TOS int
}

// Sizes of private data (o2iblnd 3.5).
const (
	MaxConnectPrivate = 56
	MaxRejectPrivate  = 148
	MaxAcceptPrivate  = 196
)

// ConnParam goes with Connect and Accept (o2iblnd 3.4). RDMA READ and atomics are
// not asked for. Nothing of it is kept.
type ConnParam struct {
	// Private is at most MaxConnectPrivate, or MaxAcceptPrivate, bytes; EINVAL.
	Private []byte
	// Retries is how often a packet is sent again that is not acknowledged, 0 to 7;
	// that of Connect holds for both sides.
	Retries uint8
	// RNRRetries is how often the other side sends again what came without a posted
	// buffer, 0 to 6; 7 is without end.
	RNRRetries uint8
}

// ID is one end of a connection, or a listener, with the queue pair that it was given.
//
// The order for one that dials: Dial, EventAddrResolved, ResolveRoute,
// EventRouteResolved, CreateQP, Post of receives, Connect, EventEstablished or
// EventRejected. For one that is called: EventConnectRequest, CreateQP, Post of receives,
// Accept, EventEstablished; or Reject, Destroy.
type ID interface {
	// SetOwner attaches what the driver likes to find at an event; Owner returns it.
	SetOwner(owner any)
	Owner() any
	// Local and Remote are the addresses; a listener has no remote one.
	Local() netip.AddrPort
	Remote() netip.AddrPort

	// Device is the device that the ID is bound to, one object for all IDs of a
	// provider on it, and the port. A listener has it at once, an ID that dials from
	// EventAddrResolved on. ENODEV before.
	Device() (Device, int, error)
	// ResolveRoute goes on after EventAddrResolved: EventRouteResolved or
	// EventRouteError follows.
	ResolveRoute(timeout time.Duration) error
	// CreateQP makes the ID's queue pair; q becomes what it really has, which is at
	// least what was asked for. ENOMEM, EINVAL: the device cannot make one so large.
	CreateQP(q *QP) error
	// QPN is the queue pair's number, 0 before CreateQP.
	QPN() uint32
	// Connect sends the request, Accept answers one, Reject refuses it with at most
	// MaxRejectPrivate bytes. The ID of a rejected request is destroyed by its owner.
	// EINVAL: not now, or too much private data; for Accept also that the caller has
	// given up, which no event tells.
	Connect(ConnParam) error
	Accept(ConnParam) error
	Reject(private []byte) error
	// Established tells the connection manager that the peer has been heard
	// (AsyncCommEst, or a message that came before EventEstablished), which then
	// delivers EventEstablished if it had not. EINVAL: it is not connected, or not any
	// more.
	Established() error
	// Disconnect puts the queue pair into the error state, so that all that is posted
	// is flushed, and tells the peer; both get EventDisconnected. It is also called
	// after EventDisconnected has come. EINVAL: there is no connection.
	Disconnect() error
	// Fail puts the queue pair into the error state without a word to the peer.
	Fail() error

	// Post posts receives, and then a chain of requests with the pieces of memory
	// that they name, in one crossing. It returns how many of both were taken; there
	// are fewer only with an error, ENOMEM if the queue is full. Nothing of the slices is
	// kept. Calls that shall keep an order are ordered by the caller. Requests may be
	// posted from EventEstablished on. What is posted after an error is flushed or
	// forgotten.
	//
	// Slots of the queue of requests come back when a completion of that request, or
	// of a later one, has been harvested.
	Post(recvs []Recv, requests []Request, pieces []Piece) (nrecvs, nrequests int, err error)

	// Destroy ends the ID and its queue pair: no event, no access to memory by either side after it
	// has returned. What was posted is not flushed any more, while completions from before may still be
	// harvested. A peer that is connected gets EventDisconnected, one that waits for an
	// answer EventRejected. It may wait for an Events that runs, never for the network.
	Destroy()
}

// QP is the size of a queue pair, and the queue of its completions. Requests that are not
// signalled leave no completion unless they fail.
type QP struct {
	CQ         CQ
	Sends      int // requests that can be posted
	Recvs      int // receives that can be posted
	SendPieces int // pieces of memory per request; a receive has one
	Inline     int // bytes of a request that may be FlagInline
}
