package config

import (
	"log/slog"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest"
)

// Config is a complete, validated configuration of the node and of lnetd itself.
type Config struct {
	// State is the state that the node must reach.
	State
	// Site is the part of the configuration from which State depends on the host, such as "ip2nets".
	// Settle resolves it.
	Site Site
	// Selftest configures whether the node serves LNet selftest, and with which limits.
	Selftest Selftest
	// Transport configures whether lnetd hosts transfer machines for other processes.
	Transport Transport
	// Proxies configures the nets whose drivers are in other processes.
	Proxies Proxies
	// ControlSocket is the path of the control socket. Empty means the default.
	ControlSocket string
	// MetricsAddr is the listen address of the metrics server. Empty means no server.
	MetricsAddr string
	// Metrics selects the metrics that are served, and the file with TLS settings and passwords.
	Metrics Metrics
	// LogLevel is the lowest level that is logged.
	LogLevel slog.Level
	// LogFormat is the format of log lines.
	LogFormat Format
	// SHA256 is the hash of the file in hex. It is empty if there is no file.
	SHA256 string
	// LNDTimeouts holds the LND timeouts in seconds of nets, as "net set --lnd-timeout" sets them. A
	// timeout applies to all NIs on the net, including NIs that the file does not contain.
	LNDTimeouts map[lnet.Net]int
	// Given records which of the settings above the file contains.
	Given Given
	// Warnings describes settings of the file that have no effect, or not the expected one.
	Warnings Problems
}

// Format is the format of log lines.
type Format uint8

// Formats of log lines.
const (
	FormatAuto Format = iota // the journal if standard error is connected to it, text on a terminal, otherwise JSON
	FormatJSON
	FormatText
	FormatJournal // systemd's journal, with fields
)

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		State: State{
			Parameters: defaultParameters(),
		},
		Selftest:  Selftest{Agent: selftest.DefaultConfig()},
		Metrics:   Metrics{Peers: DefaultMetricsPeers},
		Transport: Transport{Enabled: true, Group: -1, Farewell: defaultFarewell, PollTime: defaultPollTime},
		Proxies:   Proxies{Group: -1},
		LogLevel:  slog.LevelInfo,
	}
}
