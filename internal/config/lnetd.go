package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/node"
)

// lnetdKeys are the keys of the section "lnetd", but for those of drivers.
var lnetdKeys = map[string]func(*Config, place){
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
			set(&c.Parameters.Parameters, n)
		}
	}
}

// obsolete takes a whole number that means nothing.
func obsolete(_ *Config, at place) { at.number(math.MinInt32, math.MaxInt32) }

var discoveryModes = map[string]discovery.Mode{
	"on": discovery.On, "off": discovery.Off, "verify": discovery.Verify,
}

var forwarding = map[string]Routing{"enabled": RoutingAtOnce, "disabled": RoutingOff}

var formats = map[string]Format{"auto": FormatAuto, "json": FormatJSON, "text": FormatText}

// applyLnetd takes the section "lnetd". It comes after "global", which has fewer
// words for discovery.
func (c *Config) applyLnetd(f *file) {
	before := c.Parameters.Discovery
	for name, at := range f.lnetd.own {
		if read := lnetdKeys[name]; read != nil {
			read(c, at)
		}
	}
	c.addModuleStrings(f.lnetd.own)
	for t, v := range f.lnetd.drivers {
		c.setDriver(t, v)
	}
	for name, at := range f.lnetd.selftest {
		selftestKeys[name](&c.Selftest, at)
	}
	for name, at := range f.lnetd.transport {
		transportKeys[name](&c.Transport, at)
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
