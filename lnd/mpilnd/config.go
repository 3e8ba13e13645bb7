package mpilnd

import (
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnet"
)

// DefaultType is the type of nets over MPI, unless a site chooses another one (mpilnd B.4).
const DefaultType lnet.NetType = 127

// Config is a driver's configuration. Start from DefaultConfig and set MPI, Comms and Peers.
type Config struct {
	// MPI is the access to the library.
	MPI boundary.MPI
	// Comms are the communicators with the peers: that of the job, and inter-communicators with others.
	Comms []boundary.Comm
	// Peers knows the addresses of the peers.
	Peers Peers
	// Type is the type of the nets. 0 means DefaultType.
	Type lnet.NetType
	// PID is the PID of this process: that of its application, or lnet.PIDLustre for a proxy (MPI-11, MPI-13).
	PID lnet.PID
	// Proxy means that the interface's upper is not a node but lnetd's, behind the protocol of proxies, which does
	// not carry optimized GETs.
	Proxy bool
	// Fault, if not nil, is called with each error of MPI before the operation concerned fails. It may end the
	// application (Comm.Abort) instead of returning (MPI-3).
	Fault func(err error)
	// Logger is used if an interface's Config has no logger. If it is nil too, lines are discarded.
	Logger *slog.Logger

	// Tunables are the defaults for the flow-control tunables of each interface.
	Tunables lnd.Tunables
	// Timeout is the LND timeout. 0 means LNet's current timeout (lnd.Upper.LNDTimeout).
	Timeout time.Duration
	// ShortMax is the longest payload in bytes that is sent with its header.
	ShortMax int
	// ReceivePool is the number of receives for short messages that are posted on each communicator. 0 means as many
	// as its peers have credits, at most 1024, and 16 more.
	ReceivePool int
}

// Peers knows where the processes with LNet are. Its methods are called by the goroutine of Driver.Run, and must return
// the same for the same arguments each time.
type Peers interface {
	// Find returns where the process with a NID is. It returns false if there is no such process.
	Find(nid lnet.NID) (Place, bool)
	// Process returns the NID and the PID of the process at a place. It returns false if no process there uses LNet.
	Process(at Place) (lnet.ProcessID, bool)
}

// Place is the place of a process: the index of a communicator in Config.Comms, and its rank there.
type Place struct{ Comm, Rank int }

// fields are the driver's tunables (mpilnd B.9).
var fields = slices.Concat(lnd.Fields[Config]{
	lnd.NumberIn(func(c *Config) *time.Duration { return &c.Timeout }, lnd.Tunable{
		Name: "timeout", Parameter: "timeout", Max: 24 * 3600, Unit: lnd.Seconds, Live: true, PerNet: true,
		Help: "time without an answer until a message fails; 0: lnd_timeout",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.ShortMax }, lnd.Tunable{
		Parameter: "short_max", Min: 0, Max: lnet.MTU, Default: 8192, Unit: lnd.Bytes,
		Help: "longest payload that is sent with its header",
	}),
	lnd.NumberIn(func(c *Config) *int { return &c.ReceivePool }, lnd.Tunable{
		Parameter: "receive_pool", Max: 1 << 16, Auto: true,
		Help: "receives for short messages on each communicator; 0: by the number of peers",
	}),
}, lnd.FlowIn(func(c *Config) *lnd.Tunables { return &c.Tunables }, "", ", and of messages that a peer may send ahead"))

// Table returns the driver's tunables for nets of the type t.
func Table(t lnet.NetType) lnd.Table {
	return lnd.Table{Type: t, Section: "mpilnd", About: "Parameters of the MPI driver.", Tunables: fields.Tunables()}
}

// DefaultConfig returns a configuration with the defaults of all tunables.
func DefaultConfig() Config {
	c := Config{Type: DefaultType, PID: lnet.PIDLustre}
	fields.SetDefaults(&c)
	return c
}

// poolSize returns the number of receives for short messages on a communicator (MPI-21).
func (c *Config) poolSize(comm boundary.Comm, t lnd.Tunables) int {
	const most, spare = 1024, 16
	if c.ReceivePool > 0 {
		return c.ReceivePool
	}
	return min(credits(t)*comm.Size(), most) + spare
}

// credits returns the number of messages that a peer may send ahead.
func credits(t lnd.Tunables) int { return min(t.PeerCredits, math.MaxUint16) }

// Set sets the tunable with the given parameter to v. It returns an error if there is no such tunable, or if v is
// outside its range.
func (c *Config) Set(parameter string, v int64) error { return fields.Set(c, parameter, v) }
