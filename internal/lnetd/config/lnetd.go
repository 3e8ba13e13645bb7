package config

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnet"
)

// lnetdKeys holds the keys of the section "lnetd", except for those of drivers.
var lnetdKeys = func() map[string]setting[Config] {
	keys := parameterSettings(parameters.Lnetd)
	maps.Copy(keys, otherKeys)
	return keys
}()

// otherKeys holds those keys of the section "lnetd" that are not parameters of the node.
var otherKeys = map[string]setting[Config]{
	"control_socket": texts(pathText, func(c *Config, s string) error {
		c.ControlSocket = s
		return nil
	}),
	"metrics_addr": texts(Text{"HOST:PORT, or none", "127.0.0.1:9100"}, func(c *Config, s string) error {
		if s == "none" {
			c.MetricsAddr = ""
			return nil
		}
		c.MetricsAddr = s
		return checkAddr(s)
	}),
	"log_level": texts(Text{"debug, info, warn or error", "info"}, func(c *Config, s string) (err error) {
		c.LogLevel, err = ParseLevel(s)
		return err
	}),
	"discovery": wordsOf(discoveryWords, discoveryModes,
		func(c *Config, m discovery.Mode) { c.Parameters.Discovery = m }),
	"lnd_timeouts": lndTimeouts,
	"lock_prim":    {list{scalar{nidText}}, (*Config).lockPeers},
	"forwarding": wordsOf(Words{"enabled", "disabled"}, []Routing{RoutingAtOnce, RoutingOff},
		func(c *Config, r Routing) { c.Routing = r }),
	"log_format": wordsOf(formatWords, []Format{FormatAuto, FormatJSON, FormatText, FormatJournal},
		func(c *Config, f Format) { c.LogFormat = f }),
}

// lndTimeouts is the setting "lnd_timeouts", which holds the LND timeouts of nets.
var lndTimeouts = setting[Config]{
	list{&shape{
		key: "lnd_timeouts", needed: [][]string{{"net"}, {"timeout"}}, lnetdOnly: true,
		keys: map[string]form{"net": scalar{netText}, "timeout": scalar{wholeIn(api.LNDTimeoutRange)}},
	}},
	func(c *Config, at place) {
		names := map[lnet.Net]place{}
		for _, item := range at.optionalItems() {
			net, ok := item.member("net")
			if !ok {
				item.missing("net", netText)
				continue
			}
			timeout, ok := item.member("timeout")
			if !ok {
				item.missing("timeout", wholeIn(api.LNDTimeoutRange))
				continue
			}
			n, valid := net.net()
			if before, twice := names[n]; valid && twice {
				net.problemf("net %s occurs twice; the first is in line %d", n, before.node.Line).remedyf("remove one of them")
			}
			names[n] = net
			if seconds, ok := timeout.in(api.LNDTimeoutRange); ok && valid {
				if c.LNDTimeouts == nil {
					c.LNDTimeouts = map[lnet.Net]int{}
				}
				c.LNDTimeouts[n] = seconds
			}
		}
	},
}

// lockPeers reads "lock_prim", a list of primary NIDs, and marks the peers of c with these primary NIDs
// as locked. It adds a warning for each NID that is not the primary NID of a peer of c.
func (c *Config) lockPeers(at place) {
	for _, item := range at.optionalItems() {
		nids, ok := item.nids(1)
		if !ok {
			continue
		}
		if p := find(c.Peers, func(p *Peer) bool { return p.Primary == nids[0] }); p != nil {
			p.Locked = true
		} else {
			item.warn("no peer has the primary NID %s, so nothing is locked", nids[0]).remedyf("add the peer to the section \"peer\"")
		}
	}
}

// maxSeconds is the maximum of values in seconds that kernels do not limit. It is one day, because
// larger values are probably mistakes.
const maxSeconds = 24 * 3600

// applyLnetd stores the values of the section "lnetd" in c. It must be called after applyGlobals, so
// that "discovery" in "lnetd", which can express all modes, overrides that in "global".
func (c *Config) applyLnetd(f *file) {
	before := c.Parameters.Discovery
	for name, at := range f.lnetd.options {
		if key, ok := lnetdKeys[name]; ok {
			key.read(c, at)
		}
	}
	c.addModuleStrings(f.lnetd.options)
	for t, v := range f.lnetd.drivers {
		c.setDriver(t, v)
	}
	readSection(f.lnetd.selftest, selftestKeys, &c.Selftest)
	readSection(f.lnetd.transport, transportKeys, &c.Transport)
	readSection(f.lnetd.proxies, proxiesKeys, &c.Proxies)
	readSection(f.lnetd.metrics, metricsKeys, &c.Metrics)
	if _, given := f.globals["discovery"]; given && (before == discovery.Off) != (c.Parameters.Discovery == discovery.Off) {
		f.lnetd.options["discovery"].warn("%s overrides the value in \"global\"", c.Parameters.Discovery)
	}
}

// readSection stores the values of a section within "lnetd" in t.
func readSection[T any](values map[string]place, keys map[string]setting[T], t *T) {
	for name, at := range values {
		keys[name].read(t, at)
	}
}

// formatWords holds the names of the formats, in the order of their constants.
var formatWords = Words{"auto", "json", "text", "journal"}

// String returns the name of the format in the configuration.
func (f Format) String() string { return formatWords[f] }

// ParseLevel parses a log level: debug, info, warn or error.
func ParseLevel(s string) (slog.Level, error) {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(s, l.String()) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("%q is not a log level", s)
}

func checkAddr(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not of the form HOST:PORT", s)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: %q is not a port", s, port)
	}
	return nil
}
