package config

import (
	"math"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// routerSensitivity is the default of Parameters.RouterSensitivity in percent.
const routerSensitivity = 100

func defaultParameters() Parameters {
	return Parameters{Parameters: node.DefaultParameters(), RouterSensitivity: routerSensitivity}
}

// parameter is a parameter of the node with the functions that read it from Parameters and set it there.
type parameter struct {
	parameters.Parameter
	get func(*Parameters) int64
	put func(*Parameters, int64)
}

// set sets the parameter in to. The number v must be in the range that requests permit.
func (p *parameter) set(to *Parameters, v int64) { p.put(to, p.Stored(v)) }

// parameterTable holds all parameters of the node, in the order in which commands print them. To add a
// parameter, add a field to node.Parameters and an entry to this table, and run "make tunables". All
// code for documents, their schema and reference, module parameters, requests and commands uses the
// table.
var parameterTable = withDefaults([]parameter{
	numberAt(func(p *Parameters) *uint32 { return &p.NUMARange }, parameters.Parameter{
		Name: "numa_range", Section: parameters.Global, Module: "lnet_numa_range", Max: math.MaxUint32, Resets: true,
		Help: "difference in NUMA distance up to which NIs count as equally near",
	}),
	numberAt(func(p *Parameters) *int { return &p.InterfacesMax }, parameters.Parameter{
		Name: "max_interfaces", OldName: "max_intf", Section: parameters.Global, Module: "lnet_interfaces_max",
		Max: math.MaxInt32, Low: lnet.InterfacesMin, Lenient: true, Resets: true,
		Values: "16 to 2147483647; a smaller number means 4096, the default",
		Help:   "maximum number of NIs of a node, and of NIDs of a peer, including 0@lo",
	}),
	{parameters.Parameter{
		Name: discoveryName, Section: parameters.Global, Module: "lnet_peer_discovery_disabled", Inverted: true,
		Kind: lnd.Bool, Max: math.MaxInt32, Lenient: true, Live: true, Resets: true,
		Values: "0, 1, on, off or verify",
		Help:   "off (or 0), on, or verify: only compare; 1 means on, but does not change verify",
	}, getDiscovery, putDiscovery},
	boolAt(func(p *Parameters) *bool { return &p.DropAsymRoute }, parameters.Parameter{
		Name: "drop_asym_route", Section: parameters.Global, Module: "lnet_drop_asym_route", Max: math.MaxInt32, Lenient: true,
		Values: "0 or 1",
		Help:   "1: drop messages that arrive by another route than the one of this node",
	}),
	numberAt(func(p *Parameters) *int { return &p.RetryCount }, parameters.Parameter{
		Name: "retry_count", Section: parameters.Global, Module: "lnet_retry_count", Max: math.MaxInt32, Bounded: true,
		Values: "0 or more, less than transaction_timeout; must be 0 if health_sensitivity is 0",
		Help:   "number of times a message is resent; more resends shorten the LND timeout",
	}),
	secondsAt(func(p *Parameters) *time.Duration { return &p.TransactionTimeout }, parameters.Parameter{
		Name: "transaction_timeout", Section: parameters.Global, Module: "lnet_transaction_timeout", Min: 1, Max: math.MaxInt32,
		Values: "1 to 2147483647 seconds, more than retry_count",
		Help:   "limit for a message and its response, with all resends",
	}),
	numberAt(func(p *Parameters) *int { return &p.HealthSensitivity }, parameters.Parameter{
		Name: "health_sensitivity", Section: parameters.Global, Module: "lnet_health_sensitivity", Max: node.MaxHealth,
		Help: "how much a failure reduces the health of an NI; 0 needs retry_count 0",
	}),
	fixed(func(*Parameters) int64 { return 1 }, parameters.Parameter{
		Name: "recovery_interval", Section: parameters.Global, Module: "lnet_recovery_interval",
		Values: "1; it is obsolete", NoEffect: "is obsolete; nothing is changed",
		Help: "obsolete, has no effect",
	}),
	numberAt(func(p *Parameters) *int { return &p.RouterSensitivity }, parameters.Parameter{
		Name: "router_sensitivity", Section: parameters.Global, Max: 100,
		Values: "0 to 100 percent", NoEffect: "is stored and shown, but has no effect",
		Help: "health in percent that the NI of a router needs; has no effect",
	}),
	fixed(func(p *Parameters) int64 { return int64(p.LNDTimeout() / time.Second) }, parameters.Parameter{
		Name: "lnd_timeout", Section: parameters.Global, Unit: lnd.Seconds,
		Help: "computed from other parameters; ignored in documents",
	}),
	numberAt(func(p *Parameters) *node.ResponseTracking { return &p.ResponseTracking }, parameters.Parameter{
		Name: "response_tracking", Section: parameters.Global, Module: "lnet_response_tracking", Max: int64(node.TrackAll),
		Values: "0, 1, 2 or 3", Refusal: "Valid values are: 0, 1, 2, or 3",
		Help: "requests whose responses are tracked: 0 none, 1 GET, 2 PUT, 3 both",
	}),
	secondsAt(func(p *Parameters) *time.Duration { return &p.RecoveryLimit }, parameters.Parameter{
		Name: "recovery_limit", Section: parameters.Global, Module: "lnet_recovery_limit", Max: math.MaxInt32,
		Refusal: "Must be greater than or equal to 0",
		Help:    "how long recovery of an NI is tried; 0: no limit",
	}),
	secondsAt(func(p *Parameters) *time.Duration { return &p.MaxRecoveryPingInterval }, parameters.Parameter{
		Name: "max_recovery_ping_interval", Section: parameters.Global, Module: "lnet_max_recovery_ping_interval", Min: 1, Max: math.MaxInt32,
		Refusal: "must be strictly positive",
		Help:    "maximum interval between pings of an NI that failed",
	}),

	secondsAt(func(p *Parameters) *time.Duration { return &p.RouterCheckInterval }, parameters.Parameter{
		Name: "alive_router_check_interval", Section: parameters.Lnetd, Module: "alive_router_check_interval", Max: maxSeconds,
		Help: "interval between pings of a gateway; 0: ping it only when it is used",
	}),
	secondsAt(func(p *Parameters) *time.Duration { return &p.RouterPingTimeout }, parameters.Parameter{
		Name: "router_ping_timeout", Section: parameters.Lnetd, Module: "router_ping_timeout", Min: 1, Max: maxSeconds,
		Help: "time without pings, beyond the check interval, after which an NI of a router is down",
	}),
	inverseAt(func(p *Parameters) *bool { return &p.AsymmetricRoutes }, parameters.Parameter{
		Name: "avoid_asym_router_failure", Section: parameters.Lnetd, Module: "avoid_asym_router_failure",
		Help: "1: a gateway must be up on the nets on both sides",
	}),
	boolAt(func(p *Parameters) *bool { return &p.CheckRoutersBeforeUse }, parameters.Parameter{
		Name: "check_routers_before_use", Section: parameters.Lnetd, Module: "check_routers_before_use",
		Help: "1: a route is down until its gateway has answered",
	}),
	inverseAt(func(p *Parameters) *bool { return &p.IgnorePeerDown }, parameters.Parameter{
		Name: "auto_down", Section: parameters.Lnetd, Module: "auto_down",
		Help: "0: ignore reports of drivers that a peer is down",
	}),
	numberAt(func(p *Parameters) *int { return &p.PeerBufferCredits }, parameters.Parameter{
		Name: "peer_buffer_credits", Section: parameters.Lnetd, Module: "peer_buffer_credits", Max: 1 << 24,
		Help: "router buffers for one peer; 0: peer_credits",
	}),
	numberAt(func(p *Parameters) *int { return &p.PeerNIsMax }, parameters.Parameter{
		Name: "peer_nis_max", Section: parameters.Lnetd, Min: node.PeerNIsMin, Max: 1 << 24,
		Help: "maximum number of NIDs of unconfigured peers; the least recently used are removed",
	}),
	// Options of older releases, without effect (lnet-core 8.5).
	fixed(func(*Parameters) int64 { return 0 }, parameters.Parameter{
		Name: "dead_router_check_interval", Section: parameters.Lnetd, Module: "dead_router_check_interval", Help: "obsolete",
	}),
	fixed(func(*Parameters) int64 { return 0 }, parameters.Parameter{
		Name: "live_router_check_interval", Section: parameters.Lnetd, Module: "live_router_check_interval", Help: "obsolete",
	}),
	fixed(func(*Parameters) int64 { return routerSensitivity }, parameters.Parameter{
		Name: "router_sensitivity_percentage", Section: parameters.Lnetd, Module: "router_sensitivity_percentage", Help: "obsolete",
	}),
})

// numberAt returns a parameter that is stored as a number.
func numberAt[T ~int | ~uint8 | ~uint32](at func(*Parameters) *T, p parameters.Parameter) parameter {
	p.Live = true
	return parameter{p, func(in *Parameters) int64 { return int64(*at(in)) }, func(in *Parameters, v int64) { *at(in) = T(v) }}
}

// secondsAt returns a parameter in seconds that is stored as a duration.
func secondsAt(at func(*Parameters) *time.Duration, p parameters.Parameter) parameter {
	p.Live, p.Unit = true, lnd.Seconds
	return parameter{
		p, func(in *Parameters) int64 { return int64(*at(in) / time.Second) },
		func(in *Parameters, v int64) { *at(in) = time.Duration(v) * time.Second },
	}
}

// boolAt returns a parameter that is stored as a boolean.
func boolAt(at func(*Parameters) *bool, p parameters.Parameter) parameter {
	p.Live, p.Kind, p.Max = true, lnd.Bool, max(p.Max, 1)
	return parameter{
		p, func(in *Parameters) int64 { return int64(boolToInt(*at(in))) },
		func(in *Parameters, v int64) { *at(in) = v != 0 },
	}
}

// inverseAt returns a parameter that is stored as the opposite boolean.
func inverseAt(at func(*Parameters) *bool, p parameters.Parameter) parameter {
	p.Live, p.Kind, p.Max = true, lnd.Bool, 1
	return parameter{
		p, func(in *Parameters) int64 { return int64(boolToInt(!*at(in))) },
		func(in *Parameters, v int64) { *at(in) = v == 0 },
	}
}

// fixed returns a parameter that cannot be changed. Documents may contain any number for it, which is
// ignored.
func fixed(get func(*Parameters) int64, p parameters.Parameter) parameter {
	p.Min, p.Max = math.MinInt32, math.MaxInt32
	return parameter{p, get, func(*Parameters, int64) {}}
}

// withDefaults sets Default in each parameter of the list to the default of a node, and returns the
// list.
func withDefaults(list []parameter) []parameter {
	d := defaultParameters()
	for k := range list {
		list[k].Default = list[k].get(&d)
	}
	return list
}

// getDiscovery returns the mode of discovery as a number: 0 if it is off, otherwise 1. The mode Verify,
// which kernels do not have, is also shown as 1.
func getDiscovery(p *Parameters) int64 { return int64(boolToInt(p.Discovery != discovery.Off)) }

// putDiscovery sets the mode of discovery to off if v is 0, and otherwise to on. If the mode is Verify, 1
// does not change it. The number may come from a backup, in which 1 also stands for Verify.
func putDiscovery(p *Parameters, v int64) {
	switch {
	case v == 0:
		p.Discovery = discovery.Off
	case p.Discovery == discovery.Off:
		p.Discovery = discovery.On
	}
}

// ParameterTable returns the descriptions of all parameters of a node. The list in
// internal/lnetd/control/parameters is generated from it.
func ParameterTable() []parameters.Parameter {
	list := make([]parameters.Parameter, len(parameterTable))
	for k := range parameterTable {
		list[k] = parameterTable[k].Parameter
	}
	return list
}

// parametersIn returns the parameters in a section of documents.
func parametersIn(section string) []parameter {
	return slices.DeleteFunc(slices.Clone(parameterTable), func(p parameter) bool { return p.Section != section })
}

// parameterSettings returns the settings of the parameters in a section, by key.
func parameterSettings(section string) map[string]setting[Config] {
	settings := map[string]setting[Config]{}
	for _, p := range parametersIn(section) {
		s := ranged(p.Range(), func(c *Config, v int) { p.set(&c.Parameters, int64(v)) })
		settings[p.Name] = s
		if p.OldName != "" {
			settings[p.OldName] = s
		}
	}
	return settings
}

// Shown returns the values of the parameters that commands print, by name.
func (p *Parameters) Shown() map[string]int64 {
	values := map[string]int64{}
	for _, one := range parametersIn(parameters.Global) {
		values[one.Name] = one.get(p)
	}
	return values
}

// Set sets parameters by name, and ignores unknown names. Each number must be in the range that requests
// permit.
func (p *Parameters) Set(values map[string]int64) {
	for k := range parameterTable {
		if v, ok := values[parameterTable[k].Name]; ok {
			parameterTable[k].set(p, v)
		}
	}
}
