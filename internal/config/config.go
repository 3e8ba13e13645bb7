package config

import (
	"log/slog"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
	"github.com/lnetd/lnetd/selftest"
)

// Ports of LNet over TCP.
const (
	// Port is where kernel nodes listen.
	Port = 988
	// UnprivilegedPort is where lnetd listens if it may not listen on Port
	// and was not told where to.
	UnprivilegedPort = 9988
)

// Config is a whole configuration, checked.
type Config struct {
	// NIs are the interfaces to bring up, in order. Upper and Logger are for
	// the node to fill. None: lnetd finds one itself.
	NIs []lnd.Config
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
	// Socklnd is the TCP driver's configuration.
	Socklnd socklnd.Config
	// Selftest says whether the node serves LNet selftest, and within which bounds.
	Selftest Selftest
	// PortGiven tells that the operator has chosen the port, so that no other
	// may be taken in its place.
	PortGiven bool
	// AcceptGiven tells that the operator has chosen the accept mode.
	AcceptGiven bool
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
		Socklnd:           socklnd.DefaultConfig(),
		Selftest:          Selftest{Agent: selftest.DefaultConfig()},
		LogLevel:          slog.LevelInfo,
	}
}

// SetPort makes port both the port to listen on and the port to call.
func (c *Config) SetPort(port int) {
	c.PortGiven = true
	c.Socklnd.AcceptPort, c.Socklnd.AcceptPortBulk = port, port
	c.Socklnd.ConnectPort, c.Socklnd.ConnectPortBulk = port, port
}

// TakeUnprivilegedPort makes lnetd listen and call where it may without
// privileges, and accept others that have none. A port to call that was
// configured stays.
func (c *Config) TakeUnprivilegedPort() {
	s := &c.Socklnd
	s.AcceptPort, s.AcceptPortBulk = UnprivilegedPort, UnprivilegedPort
	if s.ConnectPort == 0 {
		s.ConnectPort, s.ConnectPortBulk = UnprivilegedPort, UnprivilegedPort
	}
	s.Accept = socklnd.AcceptAll
}
