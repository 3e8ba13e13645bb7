package lnd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Driver opens interfaces on networks of one type. A driver knows nothing of
// the node above it but the Upper that each interface reports to.
//
// All methods are safe for concurrent use.
type Driver interface {
	// Type is the type of the nets that the driver serves.
	Type() lnet.NetType

	// Open brings one interface up: when it returns without an error the
	// interface accepts connections and messages, and its upcalls may
	// already run. Open may block for as long as ctx allows.
	Open(ctx context.Context, c Config) (Interface, error)
}

// Config says what Driver.Open shall bring up.
type Config struct {
	// Net is the net that the interface joins; zero takes that of NID.
	Net lnet.Net
	// Device names the network device, "eth0" or an alias "eth0:1". If it is
	// empty the device that owns NID's address is taken, or, with no NID
	// either, the driver's choice.
	Device string
	// NID, if not zero, is the NID that the interface must have, on Net.
	NID lnet.NID
	// Upper is told of everything that happens on the interface. Required.
	Upper Upper
	// Tunables are the tunables that all drivers share; a zero or negative
	// field (PeerTimeout: negative) takes the driver's default.
	Tunables Tunables
	// Options are tunables of one driver for this interface alone, of the
	// type that the driver documents; nil takes the driver's own defaults.
	Options any
	// Logger receives what an operator should see; nil discards.
	Logger *slog.Logger
}

// Resolve sets Net by NID, if that alone says it. The error is that they contradict
// each other. Who opens an interface calls it.
func (c *Config) Resolve() error {
	switch {
	case c.NID.IsZero():
	case c.Net == 0:
		c.Net = c.NID.Net()
	case c.Net != c.NID.Net():
		return fmt.Errorf("nid %s: not on %s", c.NID, c.Net)
	}
	return nil
}

// Tunables are the flow-control tunables common to all drivers
// (lnet-core 7.1, socklnd 18). They bind the node, not the driver: the driver
// supplies defaults and bounds, the node counts.
type Tunables struct {
	// PeerTimeout is how long a router's silence is tolerated; 0 switches
	// aliveness off, negative takes the default.
	PeerTimeout time.Duration
	// PeerCredits bounds the messages under way to one peer NI, 1 or more.
	PeerCredits int
	// PeerBufferCredits bounds the router buffers that one peer NI may
	// occupy; 0 means PeerCredits.
	PeerBufferCredits int
	// Credits bounds the messages under way on the interface, at least
	// PeerCredits.
	Credits int
}

// Or is t with a driver's defaults where it says none.
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

// Interface is one NI's driver side. All methods are safe for concurrent use,
// also from within upcalls and completions, unless said otherwise.
//
// An interface carries payloads of up to lnet.MTU bytes in up to lnet.MaxFragments
// segments, whatever its transport takes in one piece.
//
// One that moves payload by RDMA is also a memory.Registrar. Its device touches
// no memory but what it has registered and what its own pool has; what messages
// name besides goes through that pool.
type Interface interface {
	// NID is the interface's NID; constant.
	NID() lnet.NID
	// Device names the network device in use; empty if there is none.
	Device() string
	// LargeNIDs tells whether headers with 16-byte addresses can be carried, to
	// peers that take them (lnet-wire 4.9); constant. The node sends no others to an
	// interface that cannot.
	LargeNIDs() bool
	// Tunables are those in force, defaults resolved; constant.
	Tunables() Tunables
	// Timeout is the LND timeout T in force: a message that has made no progress
	// for so long is completed with an error (socklnd 14). It may change, with
	// Upper.LNDTimeout; 0: there is none.
	Timeout() time.Duration
	// Options are the driver's own tunables in force, of the type that
	// Config.Options has; constant, but for Tuner.
	Options() any
	// Link is the present link state.
	Link() LinkState

	// Send takes m over and never blocks. It runs in the caller's goroutine
	// and may transmit at once. The driver completes m exactly once through
	// m.Done, perhaps before Send returns, and owns m and the memory that it
	// names until then. Messages to one peer that travel on one connection
	// keep their order; nothing else about order is promised. On a closed
	// interface m completes with ErrClosed.
	Send(m *Tx)

	// Receive answers an arrival: it says where m's payload goes. It is
	// called exactly once for every arrival that Upper.Arrived accepted,
	// within the upcall (the fast path) or later from any goroutine, also if
	// it has been withdrawn (Upper.Withdrawn). It never blocks; it may
	// complete m before it returns. If m's connection has died or the
	// interface has been closed, it completes m with an error, at the latest
	// when the upcall that tells so has returned.
	Receive(m *Rx, p Placement)

	// Disconnect closes all connections with peer and completes what was on
	// them, or waited for one, with a StatusLocalAborted error; what the peer may have
	// seen, and must not be sent again, with StatusLocalError. A later Send connects anew.
	Disconnect(peer lnet.NID)

	// Refusals returns how many callers the interface has turned away, by
	// reason. Those whose words do not tell which interface they want count on
	// one that they may have meant.
	Refusals() RefusalCounts

	// Recall takes back messages of which no byte has been written: those to
	// peer, or to all with the zero NID, for which match is true are completed with
	// ErrRecalled, within the call or soon after it. It is best effort: what is
	// written at that moment goes on. match is called under the driver's locks, also
	// after Recall has returned; it must be quick and call nothing of the driver.
	Recall(peer lnet.NID, match func(m *Tx) bool)

	// LinkBack tells that a link of the peer's was away and is back: what is due from
	// it has its full time again. It neither blocks nor makes upcalls.
	LinkBack(peer lnet.NID)

	// Probe makes sure that the connections with peer are of a life that lasts,
	// where another NID of its has shown a new one: those that are not are closed,
	// at the latest when the peer has been silent for a few seconds, and
	// Upper.PeerRestarted is called. What lives loses nothing. False: there is no
	// connection. It neither blocks nor makes upcalls.
	Probe(peer lnet.NID) bool

	// Counters returns the driver's counters, for display; the order of
	// names is stable.
	Counters() []Counter

	// Close stops the interface: it refuses new messages, completes all
	// others with an error, and returns when every upcall has returned and
	// every goroutine of the interface has ended, or when ctx is done. What
	// registrations are left end with it. It must not be called from an upcall
	// or a completion. A second call returns ErrClosed.
	Close(ctx context.Context) error
}

// Tuner is an Interface whose Options can be changed while it is up.
type Tuner interface {
	// Tune has options, as Config.Options has them, hold from now on for connections
	// that are made. Those that there are stay as they are; peers with fewer than they
	// are to have get more. It neither blocks for long nor makes upcalls. After an error
	// nothing has changed.
	Tune(options any) error
}

// Counter is one named driver counter.
type Counter struct {
	Name  string // lower_case, stable; it ends in _total if the value only grows
	Value uint64
	Help  string // what it counts, a sentence
}

// LinkState tells whether an interface can carry traffic.
type LinkState uint8

const (
	// LinkUp means that nothing is known against the interface.
	LinkUp LinkState = iota
	// LinkDown means a fatal link state: no carrier, the device is gone or
	// lost its address (socklnd 17). Connections stay; the node prefers
	// other interfaces and reports the NI as down.
	LinkDown
)

// LinkExplainer is an Interface that knows why its link is down.
type LinkExplainer interface {
	Interface
	// LinkCause says why the link is down and what to do, for an operator. It is empty if
	// the link is up.
	LinkCause() string
}

func (s LinkState) String() string {
	if s == LinkUp {
		return "up"
	}
	return "down"
}
