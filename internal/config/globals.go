package config

import (
	"math"
	"time"

	"github.com/lnetd/lnetd/node"
)

// globalKeys are the keys of "global" (lnetctl 6). A value that this version
// does nothing with draws a warning if it is not the default.
var globalKeys = map[string]*globalKey{
	"numa_range":                 {lo: 0},
	"max_interfaces":             {lo: 0, apply: func(g *Globals, v int) { g.InterfacesMax = interfacesMax(v) }},
	"max_intf":                   {lo: 0, apply: func(g *Globals, v int) { g.InterfacesMax = interfacesMax(v) }},
	"discovery":                  {lo: 0, apply: func(g *Globals, v int) { g.Discovery = v != 0 }},
	"drop_asym_route":            {lo: 0},
	"retry_count":                {lo: 0, apply: func(g *Globals, v int) { g.RetryCount = v }},
	"transaction_timeout":        {lo: 1, apply: func(g *Globals, v int) { g.TransactionTimeout = seconds(v) }},
	"health_sensitivity":         {lo: 0, hi: 1000, apply: func(g *Globals, v int) { g.HealthSensitivity = v }},
	"recovery_interval":          {lo: math.MinInt32, ignored: true}, // obsolete
	"router_sensitivity":         {lo: 0, hi: 100, usual: 100},
	"lnd_timeout":                {lo: math.MinInt32, ignored: true}, // derived, only shown
	"response_tracking":          {lo: 0, hi: 3, apply: func(g *Globals, v int) { g.ResponseTracking = node.ResponseTracking(v) }},
	"recovery_limit":             {lo: 0, apply: func(g *Globals, v int) { g.RecoveryLimit = seconds(v) }},
	"max_recovery_ping_interval": {lo: 1, apply: func(g *Globals, v int) { g.MaxRecoveryPingInterval = seconds(v) }},
}

// globalKey is one key of "global".
type globalKey struct {
	lo, hi  int // hi 0: no bound
	usual   int // the default, for keys without effect
	apply   func(*Globals, int)
	ignored bool
}

// interfacesMaxMin is the smallest limit that LNet takes; below it the default
// holds.
const interfacesMaxMin = 16

func interfacesMax(v int) int {
	if v < interfacesMaxMin {
		return Default().Globals.InterfacesMax
	}
	return v
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
		v, ok := at.number(key.lo, hi)
		switch {
		case !ok || key.ignored:
		case key.apply != nil:
			key.apply(&c.Globals, v)
		case v != key.usual:
			at.warn("%d: this version does nothing with the value", v)
		}
	}
	g := &c.Globals
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
