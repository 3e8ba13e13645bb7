package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Driver is all that lnetd knows of the drivers for one net type. Another one is
// another entry of Drivers, and nothing else.
type Driver struct {
	// DriverOptions are what can be set. Tunables are in the order in which
	// "net show" prints them.
	config.DriverOptions
	// Name is what an operator calls the driver: "TCP".
	Name string
	// Make makes a driver of which v is set. It logs to log.
	Make func(v config.Values, log *slog.Logger) (Made, error)
	// Options are what lnd.Config.Options shall be for an NI of which v is set.
	// Nil: the driver has no options.
	Options func(v config.Values) any
	// Defaults are what holds for an NI that says nothing: common tunables, and options
	// by name. Nil: it is not known.
	Defaults func(v config.Values) (lnd.Tunables, config.Values)
	// Chosen are the options of which 0 leaves the value to the driver: what it shows of them, if
	// anything, is known once the NI is up.
	Chosen []string
	// Usable finds the NID that an NI with a device, a NID or both would have now, and
	// its device. The error, for an operator, says why its interface cannot be used.
	// Nil: interfaces always can.
	Usable func(ni *config.NI) (lnet.NID, string, error)
	// BuiltIn reports whether this lnetd was built with the driver. Nil: it was.
	BuiltIn func() bool
	// Watch calls changed after each event that may have made an interface usable, until
	// ctx is done. Nil: there are none.
	Watch func(ctx context.Context, changed func()) error
	// Show returns the tunables in force on an NI by name; those that are not there
	// are not shown. Nil: there are none.
	Show func(i *node.NIInfo) map[string]int64
	// Again is asked when the first NI of a driver could not be brought up: it
	// returns what shall be set of the driver that is made in place of this one, or
	// nil if that would not help. Nil: it never would.
	Again func(v config.Values, err error, log *slog.Logger) config.Values
	// Explain puts an error of an NI into words for an operator, or returns nil if
	// it has no better ones. Nil: it has none.
	Explain func(err error) error
	// Find finds an interface for a node that was told of none. Nil: it does not
	// look for one.
	Find func(ctx context.Context, log *slog.Logger) (config.NI, error)
}

// Made is a driver that runs.
type Made struct {
	lnd.Driver
	// Close ends the driver, when it has no interfaces any more; nil: there is
	// nothing to end.
	Close func() error
	// Attrs are what the log says of the driver with each NI, as slog.Logger.Info
	// has it.
	Attrs []any
}

// Drivers are the table of drivers, one for each net type. If a node is told of no
// net, the first that can find an interface is asked for one.
type Drivers []Driver

// AllDrivers are the drivers of this lnetd.
func AllDrivers() Drivers { return Drivers{TCP(nil), O2IB(nil, rdmacore.Open)} }

// orHost is a network that a driver is on; nil is the host's.
func orHost(n socklnd.Network) socklnd.Network {
	if n == nil {
		return socklnd.HostNetwork()
	}
	return n
}

// Options are what can be set, for config.Parse.
func (t Drivers) Options() []config.DriverOptions {
	options := make([]config.DriverOptions, len(t))
	for k := range t {
		options[k] = t[k].DriverOptions
	}
	return options
}

// of is the driver for a net type. NIs of a type that there is none for can be kept in the
// configuration of a running node, for an lnetd that has one (decisions 99).
func (t Drivers) of(typ lnet.NetType) *Driver {
	for k := range t {
		if t[k].Type == typ {
			return &t[k]
		}
	}
	d := absent(config.DriverOptions{Type: typ})
	return &d
}

// errNoDriver means that this lnetd has no driver for a net type. In contrast to an
// interface that is missing, a driver does not come while lnetd runs.
var errNoDriver = errors.New("this lnetd has no driver")

// remedyNoDriver says what helps then: another build, if there is one that has the driver.
func remedyNoDriver(t lnet.NetType) string {
	if t == lnet.TypeO2IB {
		return "leave the net out, or run an lnetd that is built with the driver: make build TAGS=o2ib " +
			"(Debian packages gcc, libibverbs-dev, librdmacm-dev); " +
			"to keep the NI in this node's configuration for such an lnetd: lnetdctl import --wait"
	}
	return fmt.Sprintf("leave the net out: no build of lnetd has a driver for %s nets, reach them by a router (\"route\"); ", t) +
		"to keep the NI in this node's configuration: lnetdctl import --wait"
}

func isNoDriver(err error) bool { return errors.Is(err, errNoDriver) }

// noDriver is an NI that there is no driver for, for an operator.
func noDriver(ni *config.NI) error {
	return api.Fault{
		Code: api.CodeInterface, Errno: -int(syscall.EPROTONOSUPPORT),
		Text:   fmt.Sprintf("NI %s cannot be brought up", ni),
		Cause:  fmt.Sprintf("this lnetd has no driver for %s nets", ni.Net.Type()),
		Remedy: remedyNoDriver(ni.Net.Type()),
	}.Because(errNoDriver)
}

// Undriven lists the NIs of a state that this lnetd has no driver for: such a configuration
// is not for this lnetd.
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

// absent is a driver that this lnetd does not have, with what can be set of it.
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

func shownTunable(o *config.Option, v int64) api.Tunable {
	_, truth := o.Kind.(config.Truth)
	return api.Tunable{Name: o.Name, Value: v, Truth: truth}
}

// shown are the tunables of an NI in order (lnetctl 5.1 item 8).
func (t Drivers) shown(i *node.NIInfo) []api.Tunable {
	d := t.of(i.Net.Type())
	if d.Show == nil {
		return nil
	}
	var shown []api.Tunable
	values := d.Show(i)
	for _, o := range d.Tunables {
		if v, ok := values[o.Name]; ok {
			shown = append(shown, shownTunable(&o, v))
		}
	}
	return shown
}
