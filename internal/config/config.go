package config

import (
	"log/slog"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
)

// Config is a whole configuration, checked: the node, and lnetd around it.
type Config struct {
	// State is what the node shall be.
	State
	// Site is what else the node shall be, if it depends on the machine.
	Site Site
	// Selftest says whether the node serves LNet selftest, and within which bounds.
	Selftest Selftest
	// Transport says whether lnetd hosts transfer machines for other processes.
	Transport Transport
	// ControlSocket is the control socket's path; empty: the default.
	ControlSocket string
	// MetricsAddr is the address that metrics are served on; empty: none.
	MetricsAddr string
	// Metrics says which metrics are served, and to whom.
	Metrics Metrics
	// LogLevel is the lowest level that is logged.
	LogLevel slog.Level
	// LogFormat is FormatAuto, FormatJSON, FormatText or FormatJournal.
	LogFormat Format
	// SHA256 is that of the file, in hex; empty: there is none.
	SHA256 string
	// LNDTimeouts are the timeouts in seconds of the drivers by net, as "net set --lnd-timeout"
	// sets them. They are for all NIs on the net, also for those that the file does not name.
	LNDTimeouts map[lnet.Net]int
	// Given says what of all this the file speaks of.
	Given Given
	// Warnings name what was written and has no effect.
	Warnings Problems
}

// Format is how log lines are written.
type Format uint8

// The formats of log lines.
const (
	FormatAuto Format = iota // the journal if standard error is it, text on a terminal, else JSON
	FormatJSON
	FormatText
	FormatJournal // fields of systemd's journal
)

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		State: State{
			Parameters: Parameters{Parameters: node.DefaultParameters(), RouterSensitivity: routerSensitivity},
		},
		Selftest:  Selftest{Agent: selftest.DefaultConfig()},
		Metrics:   Metrics{Peers: DefaultMetricsPeers},
		Transport: Transport{Enabled: true, Group: -1, Farewell: defaultFarewell},
		LogLevel:  slog.LevelInfo,
	}
}
