package lnd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Driver opens interfaces on nets of one type. It knows the node only as the Upper of each interface.
//
// All methods are safe for concurrent use.
type Driver interface {
	// Type returns the type of the nets that the driver serves.
	Type() lnet.NetType

	// Open brings one interface up. When it returns without an error, the interface accepts connections
	// and messages. Upcalls may start before Open returns. Open may block until ctx is done.
	Open(ctx context.Context, c Config) (Interface, error)
}

// Config describes the interface that Driver.Open brings up.
type Config struct {
	// Net is the net that the interface joins. If it is zero, the net of NID is used.
	Net lnet.Net
	// Device names the network device, "eth0" or an alias "eth0:1". If it is empty, the driver uses the
	// device that has NID's address. If NID is zero too, the driver chooses a device.
	Device string
	// NID, if not zero, is the NID that the interface must have. It must be on Net.
	NID lnet.NID
	// Upper receives all upcalls of the interface. Required.
	Upper Upper
	// Tunables are the tunables that all drivers share. A zero or negative field selects the driver's
	// default; for PeerTimeout, only a negative value does.
	Tunables Tunables
	// Options are the driver's own tunables that this interface sets. Open returns an error if one is
	// unknown or outside its range.
	Options Values
	// Logger receives messages for the operator. If nil, they are discarded.
	Logger *slog.Logger
}

// Resolve sets Net to the net of NID if Net is zero. It returns an error if NID is not on Net. Drivers call it
// first in Open.
func (c *Config) Resolve() error {
	switch {
	case c.NID.IsZero():
	case c.Net == 0:
		c.Net = c.NID.Net()
	case c.Net != c.NID.Net():
		return fmt.Errorf("nid %s is not on net %s", c.NID, c.Net)
	}
	return nil
}

// Tunables are the flow-control tunables that all drivers have (lnet-core 7.1, socklnd 18). The driver supplies
// defaults and bounds; the node enforces the limits.
type Tunables struct {
	// PeerTimeout is how long a router may be silent before the node considers it dead. 0 means that aliveness
	// is not checked. A negative value selects the default.
	PeerTimeout time.Duration
	// PeerCredits is the maximum number of messages in flight to one peer NI. It is at least 1.
	PeerCredits int
	// PeerBufferCredits is the maximum number of router buffers that one peer NI may occupy. 0 means
	// PeerCredits.
	PeerBufferCredits int
	// Credits is the maximum number of messages in flight on the interface. It is at least PeerCredits.
	Credits int
}

// Or returns t with each field that is not set replaced by the field of def. PeerTimeout is not set if it is
// negative, and any other field if it is 0 or negative.
func (t Tunables) Or(def Tunables) Tunables {
	if t.PeerTimeout < 0 {
		t.PeerTimeout = def.PeerTimeout
	}
	if t.Credits <= 0 {
		t.Credits = def.Credits
	}
	if t.PeerCredits <= 0 {
		t.PeerCredits = def.PeerCredits
	}
	if t.PeerBufferCredits <= 0 {
		t.PeerBufferCredits = def.PeerBufferCredits
	}
	return t
}

// Interface is the driver's side of one NI. All methods are safe for concurrent use and may be called from
// upcalls and completions, unless stated otherwise.
//
// An interface carries payloads of up to lnet.MTU bytes in up to lnet.MaxFragments segments, even if its
// transport has smaller limits.
//
// An interface that moves payloads by RDMA is also a memory.Registrar. Its device accesses only registered
// memory and the driver's own pool of registered memory. A payload in any other memory is copied through that
// pool.
type Interface interface {
	// NID returns the interface's NID. It never changes.
	NID() lnet.NID
	// Device returns the name of the network device that the interface uses. It is empty if there is no device.
	Device() string
	// LargeNIDs reports whether the interface can carry headers with 16-byte addresses, to peers that
	// accept them (lnet-wire 4.9). It never changes. If it is false, the node sends only headers with
	// 4-byte addresses.
	LargeNIDs() bool
	// Tunables returns the tunables in force, with defaults filled in. They never change.
	Tunables() Tunables
	// Timeout returns the LND timeout T in force: a message that makes no progress for this long is
	// completed with an error (socklnd 14). 0 means no timeout. The value may change together with
	// Upper.LNDTimeout.
	Timeout() time.Duration
	// Options returns the values in force of the driver's own tunables. Only Tuner.Tune changes them. The
	// caller may change the returned map.
	Options() Values
	// Link returns the current link state.
	Link() LinkState

	// Send sends m. It never blocks. It runs in the caller's goroutine and may write to the network there. The
	// driver completes m exactly once through m.Done, perhaps before Send returns. Until then, m and the memory
	// that it refers to belong to the driver. Messages to one peer on the same connection keep their order; no
	// other order is guaranteed. On a closed interface, m completes with ErrClosed.
	Send(m *Tx)

	// Receive specifies where the payload of the arrival m goes. The node calls it exactly once for every
	// arrival for which Upper.Arrived returned nil, even if the arrival has been withdrawn (Upper.Withdrawn).
	// It calls it within Arrived, which is fastest, or later from any goroutine. Receive never blocks, and may
	// complete m before it returns. If m's connection has died or the interface has been closed, m completes
	// with an error, at the latest when the upcall that reports this has returned.
	Receive(m *Rx, p Placement)

	// Disconnect closes all connections to peer. Messages on the connections, and messages that wait for one,
	// complete with a StatusLocalAborted error. A message completes with StatusLocalError instead if the peer
	// may have seen it, so that it must not be resent. A later Send connects without a pause, even if earlier
	// attempts have failed.
	Disconnect(peer lnet.NID)

	// Refusals returns how many callers the interface has refused, by reason. A caller that was refused before
	// it said which interface it wanted is counted on one of the interfaces that it may have meant.
	Refusals() RefusalCounts

	// Recall cancels messages to peer of which no byte has been written and for which match returns true. The
	// zero NID selects the messages to all peers. Canceled messages complete with ErrRecalled, within the call
	// or soon after it. Recall is best effort: a message that is being written at that moment is sent. match is
	// called with driver locks held, also after Recall has returned. It must be fast and must not call the
	// driver.
	Recall(peer lnet.NID, match func(m *Tx) bool)

	// LinkBack notifies the driver that a link of the peer was down and is up again. The driver restarts the
	// timeouts of everything that it expects from the peer. LinkBack neither blocks nor makes upcalls.
	LinkBack(peer lnet.NID)

	// Probe makes the driver check that the connections to peer belong to its current incarnation. The node
	// calls it after another NID of the peer has announced a newer one. If they belong to an older incarnation,
	// the driver closes them and calls Upper.PeerRestarted, at the latest when the peer has been silent for a
	// few seconds. Otherwise they are not affected. Probe returns false if there is no connection. It neither
	// blocks nor makes upcalls.
	Probe(peer lnet.NID) bool

	// Counters returns the driver's counters for display, always the same ones in the same order.
	Counters() []Counter

	// Close closes the interface. Later messages fail, and all messages in progress complete with an error.
	// Close returns when every upcall has returned and every goroutine of the interface has ended, or when ctx
	// is done. It also ends memory registrations that are left. It must not be called from an upcall or a
	// completion. A second call returns ErrClosed.
	Close(ctx context.Context) error
}

// Tuner is an Interface whose Options can be changed while it is up.
type Tuner interface {
	// Tune replaces Config.Options. The new values apply to new connections; existing connections keep their
	// settings. Peers that now have too few connections get more. Tune does not block for long and makes no
	// upcalls. If it returns an error, nothing has changed.
	Tune(options Values) error
}

// Counter is one of a driver's counters.
type Counter struct {
	Name  string // in lower_case; it never changes, and ends in _total if the value never decreases
	Value uint64
	Help  string // a sentence that says what is counted
}

// LinkState is the state of an interface's link: whether the interface can send and receive.
type LinkState uint8

const (
	// LinkUp means that nothing is known to be wrong.
	LinkUp LinkState = iota
	// LinkDown means that there is no carrier, or that the device is gone or has lost its address (socklnd 17).
	// Connections stay open. The node prefers other interfaces, and reports the NI as down to peers.
	LinkDown
)

// LinkExplainer is an Interface that can explain why its link is down.
type LinkExplainer interface {
	Interface
	// LinkCause returns, as a text for an operator, why the link is down and how to fix it. It returns "" if
	// the link is up.
	LinkCause() string
}

func (s LinkState) String() string {
	if s == LinkUp {
		return "up"
	}
	return "down"
}
