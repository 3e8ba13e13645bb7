package config

import (
	"math"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// routerSensitivity is the default of router_sensitivity.
const routerSensitivity = 100

// globalKeys are the keys of "global" (lnetctl 6).
var globalKeys = map[string]*globalKey{
	"numa_range":                 {lo: 0, apply: func(c *Config, v int) { c.Parameters.NUMARange = uint32(v) }},
	"max_interfaces":             {lo: 0, apply: (*Config).setInterfacesMax},
	"max_intf":                   {lo: 0, apply: (*Config).setInterfacesMax},
	"discovery":                  {lo: 0, apply: (*Config).setDiscovery},
	"drop_asym_route":            {lo: 0, apply: func(c *Config, v int) { c.Parameters.DropAsymRoute = v != 0 }},
	"retry_count":                {lo: 0, apply: func(c *Config, v int) { c.Parameters.RetryCount = v }},
	"transaction_timeout":        {lo: 1, apply: func(c *Config, v int) { c.Parameters.TransactionTimeout = seconds(v) }},
	"health_sensitivity":         {lo: 0, hi: node.MaxHealth, apply: func(c *Config, v int) { c.Parameters.HealthSensitivity = v }},
	"recovery_interval":          {lo: math.MinInt32}, // obsolete
	"router_sensitivity":         {lo: 0, hi: 100, apply: func(c *Config, v int) { c.Parameters.RouterSensitivity = v }},
	"lnd_timeout":                {lo: math.MinInt32}, // derived, only shown
	"response_tracking":          {lo: 0, hi: 3, apply: (*Config).setResponseTracking},
	"recovery_limit":             {lo: 0, apply: func(c *Config, v int) { c.Parameters.RecoveryLimit = seconds(v) }},
	"max_recovery_ping_interval": {lo: 1, apply: func(c *Config, v int) { c.Parameters.MaxRecoveryPingInterval = seconds(v) }},
}

// globalKey is one key of "global".
type globalKey struct {
	lo, hi int // hi 0: no bound but that of the type
	// apply is nil if the value has no effect.
	apply func(*Config, int)
}

// setInterfacesMax takes the default in place of what is too small, as LNet does.
func (c *Config) setInterfacesMax(v int) {
	if v < lnet.InterfacesMin {
		v = lnet.InterfacesMax
	}
	c.Parameters.InterfacesMax = v
}

func (c *Config) setDiscovery(v int) {
	c.Parameters.Discovery = discovery.On
	if v == 0 {
		c.Parameters.Discovery = discovery.Off
	}
}

func (c *Config) setResponseTracking(v int) {
	c.Parameters.ResponseTracking = node.ResponseTracking(v)
}

// applyGlobals takes the values of "global". Those that bound each other are
// compared when all are known (lnetctl 7.3).
func (c *Config) applyGlobals(f fileGlobals) {
	for name, at := range f {
		key := globalKeys[name]
		hi := key.hi
		if hi == 0 {
			hi = math.MaxInt32
		}
		if v, ok := at.number(key.lo, hi); ok && key.apply != nil {
			key.apply(c, v)
		}
	}
	g := &c.Parameters
	if at, ok := f["retry_count"]; ok && g.HealthSensitivity == 0 && g.RetryCount > 0 {
		at.wrong("%d: must be 0 while health_sensitivity is 0", g.RetryCount)
	} else if g.HealthSensitivity == 0 {
		g.RetryCount = 0
	}
	for _, name := range []string{"transaction_timeout", "retry_count"} {
		if at, ok := f[name]; ok && g.TransactionTimeout <= seconds(g.RetryCount) {
			at.wrong("transaction_timeout %d s must be greater than retry_count %d",
				int(g.TransactionTimeout/time.Second), g.RetryCount)
			return
		}
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
