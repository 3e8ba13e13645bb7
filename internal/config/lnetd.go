package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
)

// lnetdKeys are the keys of the section "lnetd".
var lnetdKeys = map[string]func(*Config, place){
	"port": func(c *Config, at place) {
		if n, ok := at.number(1, math.MaxUint16); ok {
			c.PortGiven = true
			c.Socklnd.AcceptPort, c.Socklnd.AcceptPortBulk = n, n
		}
	},
	"connect_port": func(c *Config, at place) {
		if n, ok := at.number(1, math.MaxUint16); ok {
			c.Socklnd.ConnectPort, c.Socklnd.ConnectPortBulk = n, n
		}
	},
	"accept": func(c *Config, at place) {
		if s, ok := at.text(); ok {
			if err := c.Socklnd.Accept.UnmarshalText([]byte(s)); err != nil {
				at.wrong("%q is none of secure, all, none", s)
			}
			c.AcceptGiven = true
		}
	},
	"source_ports": func(c *Config, at place) {
		if s, ok := at.text(); ok {
			p, known := sourcePorts[s]
			if !known {
				at.wrong("%q is none of auto, privileged, any", s)
				return
			}
			c.Socklnd.SourcePorts = p
		}
	},
	"control_socket": func(c *Config, at place) {
		if s, ok := at.text(); ok {
			c.ControlSocket = s
		}
	},
	"metrics_addr": func(c *Config, at place) {
		if s, ok := at.text(); ok && s != "none" {
			if err := checkAddr(s); err != nil {
				at.wrong("%v", err)
				return
			}
			c.MetricsAddr = s
		}
	},
	"log_level": func(c *Config, at place) {
		if s, ok := at.text(); ok {
			level, err := parseLevel(s)
			if err != nil {
				at.wrong("%v", err)
				return
			}
			c.LogLevel = level
		}
	},
	"discovery": func(c *Config, at place) {
		if s, ok := at.text(); ok {
			m, known := discoveryModes[s]
			if !known {
				at.wrong("%q is none of on, off, verify", s)
				return
			}
			c.Parameters.Discovery = m
		}
	},
	"alive_router_check_interval": parameter(0, maxSeconds, func(p *node.Parameters, n int) { p.RouterCheckInterval = seconds(n) }),
	"router_ping_timeout":         parameter(1, maxSeconds, func(p *node.Parameters, n int) { p.RouterPingTimeout = seconds(n) }),
	"avoid_asym_router_failure":   parameter(0, 1, func(p *node.Parameters, n int) { p.AsymmetricRoutes = n == 0 }),
	"check_routers_before_use":    parameter(0, 1, func(p *node.Parameters, n int) { p.CheckRoutersBeforeUse = n != 0 }),
	"auto_down":                   parameter(0, 1, func(p *node.Parameters, n int) { p.IgnorePeerDown = n == 0 }),
	"peer_nis_max":                parameter(node.PeerNIsMin, 1<<24, func(p *node.Parameters, n int) { p.PeerNIsMax = n }),
	"peer_buffer_credits":         parameter(0, 1<<24, func(p *node.Parameters, n int) { p.PeerBufferCredits = n }),
	// Of older releases, without effect (lnet-core 8.5).
	"dead_router_check_interval":    obsolete,
	"live_router_check_interval":    obsolete,
	"router_sensitivity_percentage": obsolete,
	"forwarding": func(c *Config, at place) {
		if s, ok := at.text(); ok {
			r, known := forwarding[s]
			if !known {
				at.wrong("%q is none of enabled, disabled", s)
				return
			}
			c.Routing = r
		}
	},
	"log_format": func(c *Config, at place) {
		if s, ok := at.text(); ok {
			f, known := formats[s]
			if !known {
				at.wrong("%q is none of auto, json, text", s)
				return
			}
			c.LogFormat = f
		}
	},
}

// maxSeconds is a day: more is a slip.
const maxSeconds = 24 * 3600

// parameter takes a whole number for a parameter of the node.
func parameter(lo, hi int, set func(*node.Parameters, int)) func(*Config, place) {
	return func(c *Config, at place) {
		if n, ok := at.number(lo, hi); ok {
			set(&c.Parameters, n)
		}
	}
}

// obsolete takes a whole number that means nothing.
func obsolete(_ *Config, at place) { at.number(math.MinInt32, math.MaxInt32) }

var discoveryModes = map[string]discovery.Mode{
	"on": discovery.On, "off": discovery.Off, "verify": discovery.Verify,
}

var forwarding = map[string]Routing{"enabled": RoutingAtOnce, "disabled": RoutingOff}

var sourcePorts = map[string]socklnd.SourcePorts{
	"auto": socklnd.SourceAuto, "privileged": socklnd.SourcePrivileged, "any": socklnd.SourceAny,
}

var formats = map[string]Format{"auto": FormatAuto, "json": FormatJSON, "text": FormatText}

// socklndKeys are ksocklnd's module parameters, and the acceptor's, under their
// own names (socklnd 19, lnet-wire 5.4).
var socklndKeys = map[string]func(*socklnd.Config, place){
	"accept_backlog":       whole(1, 4096, func(c *socklnd.Config, n int) { c.AcceptBacklog = n }),
	"accept_timeout":       whole(1, 3600, func(c *socklnd.Config, n int) { c.AcceptTimeout = seconds(n) }),
	"sock_timeout":         whole(0, 3600, func(c *socklnd.Config, n int) { c.SockTimeout = seconds(n) }),
	"credits":              whole(1, 1<<24, func(c *socklnd.Config, n int) { c.Tunables.Credits = n }),
	"peer_credits":         whole(1, 1<<24, func(c *socklnd.Config, n int) { c.Tunables.PeerCredits = n }),
	"peer_buffer_credits":  whole(0, 1<<24, func(c *socklnd.Config, n int) { c.Tunables.PeerBufferCredits = n }),
	"peer_timeout":         whole(0, 1<<24, func(c *socklnd.Config, n int) { c.Tunables.PeerTimeout = seconds(n) }),
	"min_reconnectms":      whole(1, 3600e3, func(c *socklnd.Config, n int) { c.MinReconnect = millis(n) }),
	"max_reconnectms":      whole(1, 3600e3, func(c *socklnd.Config, n int) { c.MaxReconnect = millis(n) }),
	"eager_ack":            whole(0, 15, func(c *socklnd.Config, n int) { c.EagerAck = n }),
	"typed_conns":          truth(func(c *socklnd.Config, b bool) { c.TypedConns = b }),
	"min_bulk":             whole(0, 1<<30, func(c *socklnd.Config, n int) { c.MinBulk = n }),
	"tx_buffer_size":       whole(0, 1<<30, func(c *socklnd.Config, n int) { c.TxBufferSize = n }),
	"rx_buffer_size":       whole(0, 1<<30, func(c *socklnd.Config, n int) { c.RxBufferSize = n }),
	"nagle":                truth(func(c *socklnd.Config, b bool) { c.Nagle = b }),
	"round_robin":          truth(func(c *socklnd.Config, b bool) { c.RoundRobin = b }),
	"keepalive":            whole(0, 1<<24, func(c *socklnd.Config, n int) { c.Keepalive = seconds(n) }),
	"keepalive_idle":       whole(0, 1<<24, func(c *socklnd.Config, n int) { c.KeepaliveIdle = seconds(n) }),
	"keepalive_count":      whole(0, 1<<24, func(c *socklnd.Config, n int) { c.KeepaliveCount = n }),
	"keepalive_intvl":      whole(0, 1<<24, func(c *socklnd.Config, n int) { c.KeepaliveInterval = seconds(n) }),
	"enable_csum":          truth(func(c *socklnd.Config, b bool) { c.EnableChecksum = b }),
	"nonblk_zcack":         truth(func(c *socklnd.Config, b bool) { c.NonblockingZCAck = b }),
	"conns_per_peer":       whole(0, 127, func(c *socklnd.Config, n int) { c.ConnsPerPeer = n }),
	"tos":                  whole(-1, 255, func(c *socklnd.Config, n int) { c.TOS = n }),
	"half_open":            whole(1, 1<<20, func(c *socklnd.Config, n int) { c.MaxHalfOpen = n }),
	"half_open_per_source": whole(1, 1<<20, func(c *socklnd.Config, n int) { c.MaxHalfOpenPerSource = n }),
}

func whole(lo, hi int, set func(*socklnd.Config, int)) func(*socklnd.Config, place) {
	return func(c *socklnd.Config, at place) {
		if n, ok := at.number(lo, hi); ok {
			set(c, n)
		}
	}
}

// truth takes 0 and 1, as module parameters are written.
func truth(set func(*socklnd.Config, bool)) func(*socklnd.Config, place) {
	return whole(0, 1, func(c *socklnd.Config, n int) { set(c, n != 0) })
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// applyLnetd takes the section "lnetd". It comes after "global", which has fewer
// words for discovery.
func (c *Config) applyLnetd(f *file) {
	before := c.Parameters.Discovery
	for name, at := range f.lnetd.own {
		lnetdKeys[name](c, at)
	}
	for name, at := range f.lnetd.socklnd {
		socklndKeys[name](&c.Socklnd, at)
	}
	for name, at := range f.lnetd.selftest {
		selftestKeys[name](&c.Selftest, at)
	}
	if _, given := f.globals["discovery"]; given && (before == discovery.Off) != (c.Parameters.Discovery == discovery.Off) {
		f.lnetd.own["discovery"].warn("%s holds over the value in \"global\"", c.Parameters.Discovery)
	}
}

func parseLevel(s string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("%q is none of debug, info, warn, error", s)
	}
	return l, nil
}

func checkAddr(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", s)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: %q is not a port", s, port)
	}
	return nil
}
