package config

import (
	"log/slog"
	"maps"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
	"github.com/lnetd/lnetd/selftest"
)

// Config is a whole configuration, checked.
type Config struct {
	// NIs are the interfaces to bring up, in order. None: lnetd finds one itself.
	NIs []NI
	// Parameters are those of the node: "global", "numa", and of "lnetd" what
	// discovery and routers need.
	Parameters node.Parameters
	// RouterSensitivity is a percentage that has no effect and is but shown.
	RouterSensitivity int
	// Peers, Routes and the rules are in the order in which they are to be made.
	Peers      []Peer
	Routes     []Route
	Rules      []selection.Rule
	TypedRules []selection.TypedRule
	// Routing says whether the node forwards, with Buffers.
	Routing Routing
	Buffers node.Buffers
	// Drivers are what was set of drivers by the type of their nets; those of which
	// nothing was are not there.
	Drivers map[lnet.NetType]Values
	// Selftest says whether the node serves LNet selftest, and within which bounds.
	Selftest Selftest
	// ControlSocket is the control socket's path; empty: the default.
	ControlSocket string
	// MetricsAddr is the address that metrics are served on; empty: none.
	MetricsAddr string
	// LogLevel is the lowest level that is logged.
	LogLevel slog.Level
	// LogFormat is FormatAuto, FormatJSON or FormatText.
	LogFormat Format
	// Warnings name what was written and has no effect, with its line.
	Warnings []string
}

// Format is how log lines are written.
type Format uint8

// The formats of log lines.
const (
	FormatAuto Format = iota // text on a terminal, else JSON
	FormatJSON
	FormatText
)

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Parameters:        node.DefaultParameters(),
		RouterSensitivity: routerSensitivity,
		Selftest:          Selftest{Agent: selftest.DefaultConfig()},
		LogLevel:          slog.LevelInfo,
	}
}

// NI is an interface to bring up.
type NI struct {
	Net lnet.Net
	// Device names the network device. If it is empty the one that owns NID's
	// address is taken, or, with no NID either, the driver's choice.
	Device string
	// NID, if not zero, is the NID that the interface must have.
	NID lnet.NID
	// Tunables are those that all drivers share; a zero or negative field
	// (PeerTimeout: negative) takes the driver's default.
	Tunables lnd.Tunables
	// Options are the driver's tunables for this NI alone.
	Options Values
}

// String is what the operator calls the NI: "tcp(eth0)", or its NID or net.
func (n *NI) String() string {
	switch {
	case n.Device != "":
		return n.Net.String() + "(" + n.Device + ")"
	case !n.NID.IsZero():
		return n.NID.String()
	}
	return n.Net.String()
}

// setDriver makes v what is set of the drivers for a net type.
func (c *Config) setDriver(t lnet.NetType, v Values) {
	if len(v) == 0 {
		return
	}
	drivers := maps.Clone(c.Drivers) // others may have copied the Config
	if drivers == nil {
		drivers = map[lnet.NetType]Values{}
	}
	drivers[t] = v
	c.Drivers = drivers
}
