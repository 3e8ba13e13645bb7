package config

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// routerSensitivity is the default of router_sensitivity.
const routerSensitivity = 100

// globalKeys holds the keys of "global" (lnetctl 6).
var globalKeys = map[string]setting[Config]{
	"numa_range":                 global("numa_range", func(c *Config, v int) { c.Parameters.NUMARange = uint32(v) }),
	"max_interfaces":             global("max_interfaces", (*Config).setInterfacesMax),
	"max_intf":                   global("max_interfaces", (*Config).setInterfacesMax),
	"discovery":                  discoveryKey,
	"drop_asym_route":            global("drop_asym_route", func(c *Config, v int) { c.Parameters.DropAsymRoute = v != 0 }),
	"retry_count":                global("retry_count", func(c *Config, v int) { c.Parameters.RetryCount = v }),
	"transaction_timeout":        global("transaction_timeout", func(c *Config, v int) { c.Parameters.TransactionTimeout = seconds(v) }),
	"health_sensitivity":         global("health_sensitivity", func(c *Config, v int) { c.Parameters.HealthSensitivity = v }),
	"recovery_interval":          obsolete, // obsolete
	"router_sensitivity":         global("router_sensitivity", func(c *Config, v int) { c.Parameters.RouterSensitivity = v }),
	"lnd_timeout":                obsolete, // derived, only shown
	"response_tracking":          global("response_tracking", (*Config).setResponseTracking),
	"recovery_limit":             global("recovery_limit", func(c *Config, v int) { c.Parameters.RecoveryLimit = seconds(v) }),
	"max_recovery_ping_interval": global("max_recovery_ping_interval", func(c *Config, v int) { c.Parameters.MaxRecoveryPingInterval = seconds(v) }),
}

// global returns the setting of a parameter that commands set too.
func global(name string, set func(*Config, int)) setting[Config] {
	return ranged(documentRange(name), set)
}

// documentRange returns the range of a parameter in documents. Commands accept any number for
// some parameters and replace it by a valid one, as kernels do. In documents, negative numbers
// and numbers of more than 31 bits are errors.
func documentRange(name string) api.Range {
	r := api.GlobalRange(name)
	if r.Max == math.MaxInt64 {
		r.Max = math.MaxInt32
	}
	r.Min = max(r.Min, 0)
	return r
}

// renamedGlobals maps older names of keys of "global" to the current ones.
var renamedGlobals = map[string]string{"max_intf": "max_interfaces"}

// setInterfacesMax replaces a value that is too small by the default, as LNet does.
func (c *Config) setInterfacesMax(v int) {
	if v < lnet.InterfacesMin {
		v = lnet.InterfacesMax
	}
	c.Parameters.InterfacesMax = v
}

// discoveryKey accepts 0 or 1, as kernels do, or the name of a mode. A name always sets that
// mode.
var discoveryKey = setting[Config]{
	either{scalar{wholeIn(documentRange("discovery"))}, scalar{discoveryWords}},
	func(c *Config, at place) {
		if !slices.Contains(discoveryWords, at.node.Value) {
			global("discovery", (*Config).setDiscovery).read(c, at)
		} else if k, ok := at.word(discoveryWords); ok {
			c.Parameters.Discovery = discoveryModes[k]
		}
	},
}

// discoveryWords holds the names of the discovery modes; discoveryModes holds the modes in the
// same order.
var (
	discoveryWords = Words{discovery.On.String(), discovery.Off.String(), discovery.Verify.String()}
	discoveryModes = []discovery.Mode{discovery.On, discovery.Off, discovery.Verify}
)

func (c *Config) setDiscovery(v int) {
	switch {
	case v == 0:
		c.Parameters.Discovery = discovery.Off
	case c.Parameters.Discovery == discovery.Off: // otherwise it may be Verify, which shows as 1
		c.Parameters.Discovery = discovery.On
	}
}

func (c *Config) setResponseTracking(v int) {
	c.Parameters.ResponseTracking = node.ResponseTracking(v)
}

// applyGlobals stores the values of "global". Values that bound each other are compared after all
// have been read (lnetctl 7.3).
func (c *Config) applyGlobals(f fileGlobals) {
	for name, m := range f {
		at := m.value
		before := len(at.file.problems)
		globalKeys[name].read(c, at)
		if now := at.file.problems; len(now) > before && !at.empty() {
			w := now[before]
			w.Text = fmt.Sprintf("invalid value '%s' for key '%s': %s", at.node.Value, m.key, w.Text)
		}
	}
	g := &c.Parameters
	if m, ok := f["retry_count"]; ok && g.HealthSensitivity == 0 && g.RetryCount > 0 {
		m.value.wrong("%d: must be 0 while health_sensitivity is 0", g.RetryCount).
			try("write 'retry_count: 0', or a health_sensitivity from 1 to %d", node.MaxHealth)
	} else if g.HealthSensitivity == 0 {
		g.RetryCount = 0
	}
	for _, name := range []string{"transaction_timeout", "retry_count"} {
		if m, ok := f[name]; ok && g.TransactionTimeout <= seconds(g.RetryCount) {
			m.value.wrong("transaction_timeout %d s must be greater than retry_count %d",
				int(g.TransactionTimeout/time.Second), g.RetryCount).
				try("write a transaction_timeout from %d, or a smaller retry_count", g.RetryCount+1)
			return
		}
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
