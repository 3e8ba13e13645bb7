package api

import "math"

// healthMax is the maximum health value.
const healthMax = 1000

// Globals is the reply to GET /v1/globals: the node's parameters as lnetctl shows them. Times are
// in seconds (lnetctl 6).
type Globals struct {
	NUMARange               int64 `json:"numa_range"`
	MaxInterfaces           int64 `json:"max_interfaces"`
	Discovery               int64 `json:"discovery"`
	Verify                  bool  `json:"discovery_verify,omitempty"` // Discovery is 1, but changes no peer
	DropAsymRoute           int64 `json:"drop_asym_route"`
	RetryCount              int64 `json:"retry_count"`
	TransactionTimeout      int64 `json:"transaction_timeout"`
	HealthSensitivity       int64 `json:"health_sensitivity"`
	RecoveryInterval        int64 `json:"recovery_interval"` // obsolete, always 1
	RouterSensitivity       int64 `json:"router_sensitivity"`
	LNDTimeout              int64 `json:"lnd_timeout"` // derived from other parameters
	ResponseTracking        int64 `json:"response_tracking"`
	RecoveryLimit           int64 `json:"recovery_limit"`
	MaxRecoveryPingInterval int64 `json:"max_recovery_ping_interval"`
}

// GlobalsChange is the body of POST /v1/globals. Fields that are nil are not changed.
type GlobalsChange struct {
	NUMARange     *int64 `json:"numa_range,omitempty"`
	MaxInterfaces *int64 `json:"max_interfaces,omitempty"` // values below 16 stand for the default
	Discovery     *int64 `json:"discovery,omitempty"`      // values other than 0 stand for 1
	// Verify enables discovery that only verifies peers. If it is set, Discovery is not.
	Verify             *bool  `json:"discovery_verify,omitempty"`
	DropAsymRoute      *int64 `json:"drop_asym_route,omitempty"`
	RetryCount         *int64 `json:"retry_count,omitempty"`
	TransactionTimeout *int64 `json:"transaction_timeout,omitempty"`
	HealthSensitivity  *int64 `json:"health_sensitivity,omitempty"`
	// RecoveryInterval is accepted and has no effect.
	RecoveryInterval        *int64 `json:"recovery_interval,omitempty"`
	RouterSensitivity       *int64 `json:"router_sensitivity,omitempty"`
	ResponseTracking        *int64 `json:"response_tracking,omitempty"`
	RecoveryLimit           *int64 `json:"recovery_limit,omitempty"`
	MaxRecoveryPingInterval *int64 `json:"max_recovery_ping_interval,omitempty"`
}

// global describes one parameter.
type global struct {
	name   string
	takes  Range  // empty if it cannot be set
	valid  string // the valid values, for an operator
	value  func(*Globals) *int64
	change func(*GlobalsChange) **int64 // nil if it cannot be set
}

// globals are the parameters in display order.
var globals = []global{
	{"numa_range", Range{0, math.MaxUint32}, "0 to 4294967295", func(g *Globals) *int64 { return &g.NUMARange }, func(c *GlobalsChange) **int64 { return &c.NUMARange }},
	{"max_interfaces", Range{math.MinInt64, math.MaxInt32}, "16 to 2147483647; a smaller number stands for 4096, the default", func(g *Globals) *int64 { return &g.MaxInterfaces }, func(c *GlobalsChange) **int64 { return &c.MaxInterfaces }},
	{"discovery", anything, "0, 1, on, off or verify", func(g *Globals) *int64 { return &g.Discovery }, func(c *GlobalsChange) **int64 { return &c.Discovery }},
	{"drop_asym_route", anything, "0 or 1", func(g *Globals) *int64 { return &g.DropAsymRoute }, func(c *GlobalsChange) **int64 { return &c.DropAsymRoute }},
	{"retry_count", count, "0 or more, less than transaction_timeout; 0 alone while health_sensitivity is 0", func(g *Globals) *int64 { return &g.RetryCount }, func(c *GlobalsChange) **int64 { return &c.RetryCount }},
	{"transaction_timeout", period, "1 to 2147483647 seconds, more than retry_count", func(g *Globals) *int64 { return &g.TransactionTimeout }, func(c *GlobalsChange) **int64 { return &c.TransactionTimeout }},
	{"health_sensitivity", Range{0, healthMax}, "0 to 1000", func(g *Globals) *int64 { return &g.HealthSensitivity }, func(c *GlobalsChange) **int64 { return &c.HealthSensitivity }},
	{"recovery_interval", anything, "1; it is obsolete", func(g *Globals) *int64 { return &g.RecoveryInterval }, func(c *GlobalsChange) **int64 { return &c.RecoveryInterval }},
	{"router_sensitivity", Range{0, 100}, "0 to 100 percent", func(g *Globals) *int64 { return &g.RouterSensitivity }, func(c *GlobalsChange) **int64 { return &c.RouterSensitivity }},
	{"lnd_timeout", Range{}, "", func(g *Globals) *int64 { return &g.LNDTimeout }, nil},
	{"response_tracking", Range{0, 3}, "0, 1, 2 or 3", func(g *Globals) *int64 { return &g.ResponseTracking }, func(c *GlobalsChange) **int64 { return &c.ResponseTracking }},
	{"recovery_limit", count, "0 to 2147483647 seconds", func(g *Globals) *int64 { return &g.RecoveryLimit }, func(c *GlobalsChange) **int64 { return &c.RecoveryLimit }},
	{"max_recovery_ping_interval", period, "1 to 2147483647 seconds", func(g *Globals) *int64 { return &g.MaxRecoveryPingInterval }, func(c *GlobalsChange) **int64 { return &c.MaxRecoveryPingInterval }},
}

// GlobalValue is the name and value of a parameter.
type GlobalValue struct {
	Name  string
	Value int64
}

// Values returns the parameters in display order.
func (g *Globals) Values() []GlobalValue {
	values := make([]GlobalValue, len(globals))
	for k := range globals {
		values[k] = GlobalValue{globals[k].name, *globals[k].value(g)}
	}
	return values
}

// Values returns the parameters that the change sets, in display order.
func (c *GlobalsChange) Values() (values []GlobalValue) {
	for k := range globals {
		if change := globals[k].change; change != nil && *change(c) != nil {
			values = append(values, GlobalValue{globals[k].name, **change(c)})
		}
	}
	return values
}

// SettableGlobals returns the names of the parameters that can be set, in display order.
func SettableGlobals() []string {
	var names []string
	for k := range globals {
		if globals[k].change != nil {
			names = append(names, globals[k].name)
		}
	}
	return names
}

// ValidGlobal describes the values that a parameter can be set to, such as "0 to 1000".
func ValidGlobal(name string) string {
	for k := range globals {
		if globals[k].name == name {
			return globals[k].valid
		}
	}
	return ""
}

// Set sets a parameter in the change. It panics if the name is not one of SettableGlobals.
func (c *GlobalsChange) Set(name string, value int64) {
	for k := range globals {
		if g := &globals[k]; g.name == name && g.change != nil {
			*g.change(c) = &value
			return
		}
	}
	panic("api: no parameter " + name)
}
