package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/node"
)

// Globals is the reply to GET /v1/globals: the parameters of the node as
// lnetctl shows them, times in seconds (lnetctl 6).
type Globals struct {
	NUMARange               int64 `json:"numa_range"`
	MaxInterfaces           int64 `json:"max_interfaces"`
	Discovery               int64 `json:"discovery"`
	DropAsymRoute           int64 `json:"drop_asym_route"`
	RetryCount              int64 `json:"retry_count"`
	TransactionTimeout      int64 `json:"transaction_timeout"`
	HealthSensitivity       int64 `json:"health_sensitivity"`
	RecoveryInterval        int64 `json:"recovery_interval"` // obsolete, always 1
	RouterSensitivity       int64 `json:"router_sensitivity"`
	LNDTimeout              int64 `json:"lnd_timeout"` // follows from others
	ResponseTracking        int64 `json:"response_tracking"`
	RecoveryLimit           int64 `json:"recovery_limit"`
	MaxRecoveryPingInterval int64 `json:"max_recovery_ping_interval"`
}

// GlobalsChange is the body of POST /v1/globals: what is nil stays as it is.
type GlobalsChange struct {
	NUMARange          *int64 `json:"numa_range,omitempty"`
	MaxInterfaces      *int64 `json:"max_interfaces,omitempty"` // less than 16 is the default
	Discovery          *int64 `json:"discovery,omitempty"`      // other than 0 is 1
	DropAsymRoute      *int64 `json:"drop_asym_route,omitempty"`
	RetryCount         *int64 `json:"retry_count,omitempty"`
	TransactionTimeout *int64 `json:"transaction_timeout,omitempty"`
	HealthSensitivity  *int64 `json:"health_sensitivity,omitempty"`
	// RecoveryInterval has no effect, whatever it is.
	RecoveryInterval        *int64 `json:"recovery_interval,omitempty"`
	RouterSensitivity       *int64 `json:"router_sensitivity,omitempty"`
	ResponseTracking        *int64 `json:"response_tracking,omitempty"`
	RecoveryLimit           *int64 `json:"recovery_limit,omitempty"`
	MaxRecoveryPingInterval *int64 `json:"max_recovery_ping_interval,omitempty"`
}

const (
	interfacesMin        = 16
	interfacesDefault    = 4096
	longestSeconds       = math.MaxInt32
	recoveryInterval     = 1
	routerSensitivityMax = 100 // percent
)

// global is one of the parameters: its word, and what it may be.
type global struct {
	name string
	// min and max are the bounds of what is accepted.
	min, max int64
	// invalid is lnetctl's text about another value; empty: that it cannot
	// configure it.
	invalid string
	value   func(*Globals) *int64
	change  func(*GlobalsChange) **int64 // nil: it cannot be set
}

const notNegative = "Must be greater than or equal to 0"

// globals are the parameters in the order in which they are shown.
var globals = []global{
	{
		name: "numa_range", max: math.MaxUint32,
		value:  func(g *Globals) *int64 { return &g.NUMARange },
		change: func(c *GlobalsChange) **int64 { return &c.NUMARange },
	}, {
		name: "max_interfaces", min: math.MinInt64, max: math.MaxInt32,
		value:  func(g *Globals) *int64 { return &g.MaxInterfaces },
		change: func(c *GlobalsChange) **int64 { return &c.MaxInterfaces },
	}, {
		name: "discovery", min: math.MinInt64, max: math.MaxInt64,
		value:  func(g *Globals) *int64 { return &g.Discovery },
		change: func(c *GlobalsChange) **int64 { return &c.Discovery },
	}, {
		name: "drop_asym_route", min: math.MinInt64, max: math.MaxInt64,
		value:  func(g *Globals) *int64 { return &g.DropAsymRoute },
		change: func(c *GlobalsChange) **int64 { return &c.DropAsymRoute },
	}, {
		name: "retry_count", max: longestSeconds,
		value:  func(g *Globals) *int64 { return &g.RetryCount },
		change: func(c *GlobalsChange) **int64 { return &c.RetryCount },
	}, {
		name: "transaction_timeout", min: 1, max: longestSeconds,
		value:  func(g *Globals) *int64 { return &g.TransactionTimeout },
		change: func(c *GlobalsChange) **int64 { return &c.TransactionTimeout },
	}, {
		name: "health_sensitivity", max: node.MaxHealth,
		value:  func(g *Globals) *int64 { return &g.HealthSensitivity },
		change: func(c *GlobalsChange) **int64 { return &c.HealthSensitivity },
	}, {
		name: "recovery_interval", min: math.MinInt64, max: math.MaxInt64,
		value:  func(g *Globals) *int64 { return &g.RecoveryInterval },
		change: func(c *GlobalsChange) **int64 { return &c.RecoveryInterval },
	}, {
		name: "router_sensitivity", max: routerSensitivityMax,
		value:  func(g *Globals) *int64 { return &g.RouterSensitivity },
		change: func(c *GlobalsChange) **int64 { return &c.RouterSensitivity },
	}, {
		name:  "lnd_timeout",
		value: func(g *Globals) *int64 { return &g.LNDTimeout },
	}, {
		name: "response_tracking", max: int64(node.TrackAll), invalid: "Valid values are: 0, 1, 2, or 3",
		value:  func(g *Globals) *int64 { return &g.ResponseTracking },
		change: func(c *GlobalsChange) **int64 { return &c.ResponseTracking },
	}, {
		name: "recovery_limit", max: longestSeconds, invalid: notNegative,
		value:  func(g *Globals) *int64 { return &g.RecoveryLimit },
		change: func(c *GlobalsChange) **int64 { return &c.RecoveryLimit },
	}, {
		name: "max_recovery_ping_interval", min: 1, max: longestSeconds, invalid: "must be strictly positive",
		value:  func(g *Globals) *int64 { return &g.MaxRecoveryPingInterval },
		change: func(c *GlobalsChange) **int64 { return &c.MaxRecoveryPingInterval },
	},
}

// GlobalValue is a parameter with its word.
type GlobalValue struct {
	Name  string
	Value int64
}

// Values are the parameters in the order in which they are shown.
func (g *Globals) Values() []GlobalValue {
	values := make([]GlobalValue, len(globals))
	for k := range globals {
		values[k] = GlobalValue{globals[k].name, *globals[k].value(g)}
	}
	return values
}

// SettableGlobals are the words of the parameters that can be set, in order.
func SettableGlobals() []string {
	var names []string
	for k := range globals {
		if globals[k].change != nil {
			names = append(names, globals[k].name)
		}
	}
	return names
}

// Set makes the change set a parameter. It panics if the parameter is not one
// of SettableGlobals.
func (c *GlobalsChange) Set(name string, value int64) {
	for k := range globals {
		if g := &globals[k]; g.name == name && g.change != nil {
			*g.change(c) = &value
			return
		}
	}
	panic("control: no parameter " + name)
}

// Globals asks for the parameters.
func (c *Client) Globals(ctx context.Context) (Globals, error) {
	var g Globals
	err := c.get(ctx, "/v1/globals", nil, &g)
	return g, err
}

// SetGlobals changes parameters.
func (c *Client) SetGlobals(ctx context.Context, r GlobalsChange) error {
	return c.post(ctx, "/v1/globals", r)
}

func (h *handlers) globals(context.Context, query) (Globals, *Fault) {
	g := h.Backend.Globals()
	g.RecoveryInterval = recoveryInterval
	return g, nil
}

func (h *handlers) setGlobals(ctx context.Context, c *GlobalsChange) *Fault {
	var named *global
	for k := range globals {
		g := &globals[k]
		if g.change == nil || *g.change(c) == nil {
			continue
		}
		named = g
		if v := **g.change(c); v < g.min || v > g.max {
			return g.fault(fmt.Errorf("%s %d is not within %d to %d", g.name, v, g.min, g.max))
		}
	}
	if named == nil {
		return invalidRequest("no parameter is given", nil)
	}
	if n := c.MaxInterfaces; n != nil && *n < interfacesMin {
		*n = interfacesDefault
	}
	for _, word := range []*int64{c.Discovery, c.DropAsymRoute} {
		if word != nil && *word != 0 {
			*word = 1
		}
	}
	c.RecoveryInterval = nil
	err := h.Backend.SetGlobals(ctx, *c)
	if errors.Is(err, node.ErrInvalid) {
		return named.fault(err)
	}
	if err != nil {
		return worded("cannot configure "+named.words(), CodeParameterInvalid, err)
	}
	return nil
}

func (g *global) words() string { return strings.ReplaceAll(g.name, "_", " ") }

// fault says in lnetctl's words that the parameter cannot have a value; some
// have errors of their own.
func (g *global) fault(err error) *Fault {
	f := Fault{
		Code: CodeParameterInvalid, Errno: -int(syscall.EINVAL), Text: g.invalid,
		Remedy: "see the parameters with: lnetdctl global show",
	}
	if f.Text == "" {
		f.Errno = -int(syscall.ENODATA)
		f.Text = "cannot configure " + g.words() + ": " + Strerror(syscall.EINVAL)
	}
	return f.Because(err)
}
