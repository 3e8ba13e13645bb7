package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Driver is everything that lnetd needs to know about the driver (LND) for one net type. To add a
// driver to lnetd, add its entry to AllDrivers; no other code changes.
type Driver struct {
	// DriverOptions describes the options. Tunables are in the order in which "net show" prints
	// them.
	config.DriverOptions
	// Name is the operator's name for the driver, such as "TCP".
	Name string
	// Make creates a driver with the options v. The driver logs to log.
	Make func(v config.Values, log *slog.Logger) (Made, error)
	// Defaults returns the common tunables and the options that an NI without own settings has, if
	// its driver has the options v. If Defaults is nil, these values are not known.
	Defaults func(v config.Values) (lnd.Tunables, lnd.Values)
	// Usable returns the NID and the device that the NI would have if it were brought up now. The
	// NI names a device, a NID or both. The error tells an operator why the interface cannot be
	// used. If Usable is nil, interfaces are always usable.
	Usable func(ni *config.NI) (lnet.NID, string, error)
	// BuiltIn reports whether this lnetd was built with the driver. If BuiltIn is nil, it was.
	BuiltIn func() bool
	// Watch blocks until ctx is done and calls changed after each event that may have made an
	// interface usable. If Watch is nil, the driver has no such events.
	Watch func(ctx context.Context, changed func()) error
	// Fallback is called if the first NI of the driver could not be brought up because of err. It
	// returns other driver options to try, or nil if no other options would help. A nil Fallback
	// means that no others would.
	Fallback func(v config.Values, err error, log *slog.Logger) config.Values
	// TryListen listens where an NI with the NID would if the driver has the options v, and stops at
	// once. If TryListen is nil, the driver does not listen, or it cannot be tried.
	TryListen func(v config.Values, nid lnet.NID) error
	// Explain converts an error of bringing up an NI to one that tells an operator the cause and
	// the remedy. It returns nil for other errors. Explain may be nil.
	Explain func(err error) error
	// Find chooses an interface for a node whose configuration names no net, and returns an NI on
	// it. If Find is nil, the driver never chooses an interface.
	Find func(ctx context.Context, log *slog.Logger) (config.NI, error)
}

// Made is a driver that Driver.Make has created.
type Made struct {
	lnd.Driver
	// For, if not nil, returns the driver of the NI instead of Driver.
	For func(ni *config.NI) lnd.Driver
	// Close, if not nil, stops the driver. All of its NIs must have been removed before.
	Close func() error
	// Attrs are attributes of the driver that are logged with each NI, as for slog.Logger.Info.
	Attrs []any
}

// driver returns the driver of the NI.
func (m *Made) driver(ni *config.NI) lnd.Driver {
	if m.For != nil {
		return m.For(ni)
	}
	return m.Driver
}

// Drivers is the table of drivers, one for each net type. If the configuration names no net, the
// first entry with a Find function chooses an interface.
type Drivers []Driver

// AllDrivers returns the drivers of this lnetd, on this host.
func AllDrivers() Drivers {
	return Drivers{TCP(socklnd.HostNetwork()), O2IB(&hostnet.Kernel{}, rdmacore.Open)}
}

// Options returns the options of the drivers, for config.Parse.
func (t Drivers) Options() []config.DriverOptions {
	options := make([]config.DriverOptions, len(t))
	for k := range t {
		options[k] = t[k].DriverOptions
	}
	return options
}

// unknown returns the name of the first of the tunables that no driver of the given NIs has. It returns ""
// if the NIs have all of them.
func (t Drivers) unknown(nis []config.NI, tunables map[string]int64) string {
	for _, name := range slices.Sorted(maps.Keys(tunables)) {
		if !slices.ContainsFunc(nis, func(ni config.NI) bool { return t.of(ni.Net.Type()).Named(name) != nil }) {
			return name
		}
	}
	return ""
}

// of returns the driver for a net type, or a placeholder if there is no driver: a configuration can
// keep NIs of such a type until an lnetd with the driver is installed (decisions 99).
func (t Drivers) of(typ lnet.NetType) *Driver {
	for k := range t {
		if t[k].Type == typ {
			return &t[k]
		}
	}
	d := absent(config.DriverOptions{Table: lnd.Table{Type: typ}})
	return &d
}

// errNoDriver means that this lnetd has no driver for a net type. Unlike a missing interface, a
// driver cannot appear while lnetd runs.
var errNoDriver = errors.New("this lnetd has no driver")

// remedyNoDriver returns what an operator can do about an NI of type t, for which this lnetd has no
// driver.
func remedyNoDriver(t lnet.NetType) string {
	if t == lnet.TypeO2IB {
		return "install the package lnetd-o2ib, remove the net, or build lnetd with the driver: make build TAGS=o2ib " +
			"(Debian packages gcc, libibverbs-dev, librdmacm-dev); " +
			"to keep the NI in the configuration until such an lnetd runs, use: lnetdctl import --wait"
	}
	if slices.ContainsFunc(lnet.AddedTypes(), func(n lnet.NamedType) bool { return n.Type == t }) {
		return "restart lnetd with this net type in \"lnetd: proxies: net_types\" of its configuration, or remove the net; " +
			"to keep the NI in the configuration until then, use: lnetdctl import --wait"
	}
	return fmt.Sprintf("remove the net: lnetd has no driver for %s nets, but can reach them through a router (\"route\"); ", t) +
		"to keep the NI in the configuration, use: lnetdctl import --wait"
}

func isNoDriver(err error) bool { return errors.Is(err, errNoDriver) }

// noDriver returns the error of an NI for which this lnetd has no driver. It can be shown to an
// operator, and wraps errNoDriver.
func noDriver(ni *config.NI) error {
	return api.Fault{
		Code: api.CodeInterface, Errno: -int(syscall.EPROTONOSUPPORT),
		Text:   fmt.Sprintf("NI %s cannot be brought up", ni),
		Cause:  fmt.Sprintf("this lnetd has no driver for %s nets", ni.Net.Type()),
		Remedy: remedyNoDriver(ni.Net.Type()),
	}.Because(errNoDriver)
}

// Undriven returns a problem for each NI of s for which this lnetd has no driver. The state s was
// read from file, which this lnetd cannot use if the list is not empty.
func (t Drivers) Undriven(file string, s *config.State) (list config.Problems) {
	for k := range s.NIs {
		ni := &s.NIs[k]
		d := t.of(ni.Net.Type())
		if ni.Net.Type() == lnet.TypeLO || d.BuiltIn == nil || d.BuiltIn() {
			continue
		}
		list = append(list, undriven(file, ni))
	}
	return list
}

func undriven(file string, ni *config.NI) *config.Problem {
	return config.ProblemAt(file, ni.Where, fmt.Sprintf("NI %s cannot be brought up: %s", ni, causeOf(noDriver(ni))), remedyNoDriver(ni.Net.Type()))
}

// absent returns a placeholder for a driver that this lnetd does not have. The options o are those of
// the driver. An NI of the placeholder is never usable.
func absent(o config.DriverOptions) Driver {
	return Driver{
		DriverOptions: o,
		Name:          o.Type.String(),
		BuiltIn:       func() bool { return false },
		Usable: func(ni *config.NI) (lnet.NID, string, error) {
			return lnet.NID{}, "", noDriver(ni)
		},
	}
}

// show returns the driver's tunables that commands print for the NI i, by name. The driver has the
// options values. A tunable that only lnetd has is printed only if its value for the NI or for the
// driver differs from the default.
func (d *Driver) show(i *node.NIInfo, values config.Values) lnd.Values {
	var usual lnd.Values
	if d.Defaults != nil {
		_, usual = d.Defaults(values)
	}
	shown := lnd.Values{}
	for k := range d.Tunables {
		t := &d.Tunables[k]
		whole, ok := usual[t.Name]
		if !ok {
			whole = t.Default
		}
		if v, ok := i.Options[t.Name]; ok && t.Shows(v, whole) {
			shown[t.Name] = v
		}
		if t.PerNet {
			shown[t.Name] = inSeconds(i.LNDTimeout)
		}
	}
	return shown
}

// listed converts the values of tunables to the form of the control interface, in the order in which
// commands print them.
func (d *Driver) listed(values lnd.Values) (list []api.Tunable) {
	for k := range d.Tunables {
		t := &d.Tunables[k]
		if v, ok := values[t.Name]; ok {
			list = append(list, api.Tunable{Name: t.Name, Value: v, Truth: t.Kind == lnd.Bool})
		}
	}
	return list
}
