package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"syscall"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/server"
	"github.com/lnetd/lnetd/lnd"
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
func AllDrivers() Drivers { return Drivers{TCP(nil)} }

// Options are what can be set, for config.Parse.
func (t Drivers) Options() []config.DriverOptions {
	options := make([]config.DriverOptions, len(t))
	for k := range t {
		options[k] = t[k].DriverOptions
	}
	return options
}

// of is the driver for a net type; nil if there is none.
func (t Drivers) of(typ lnet.NetType) *Driver {
	for k := range t {
		if t[k].Type == typ {
			return &t[k]
		}
	}
	return nil
}

// shown are the tunables of an NI in order (lnetctl 5.1 item 8).
func (t Drivers) shown(i *node.NIInfo) []api.Tunable {
	d := t.of(i.Net.Type())
	if d == nil || d.Show == nil {
		return nil
	}
	var shown []api.Tunable
	values := d.Show(i)
	for _, o := range d.Tunables {
		if v, ok := values[o.Name]; ok {
			shown = append(shown, api.Tunable{Name: o.Name, Value: v})
		}
	}
	return shown
}

// engines are the drivers that a node has, each made when it is first needed. Who
// changes the node's configuration uses them.
type engines struct {
	table  Drivers
	values map[lnet.NetType]config.Values
	log    *slog.Logger
	made   map[lnet.NetType]*engine
	// nids are those of the NIs that were brought up.
	nids map[niName]lnet.NID
}

// niName is what an operator calls an NI by.
type niName struct {
	net    lnet.Net
	device string
	nid    lnet.NID
}

func nameOf(ni *config.NI) niName { return niName{ni.Net, ni.Device, ni.NID} }

// engine is a driver that was made.
type engine struct {
	Made
	nis int // that it has ever brought up
}

func newEngines(table Drivers, values map[lnet.NetType]config.Values, log *slog.Logger) *engines {
	return &engines{
		table: table, values: maps.Clone(values), log: log,
		made: map[lnet.NetType]*engine{}, nids: map[niName]lnet.NID{},
	}
}

// engine is the driver for a net type, which is made if there is none.
func (e *engines) engine(d *Driver, v config.Values) (*engine, error) {
	if m := e.made[d.Type]; m != nil {
		return m, nil
	}
	m, err := d.Make(v, e.log)
	if err != nil {
		return nil, api.Fault{
			Code: api.CodeConfigInvalid, Text: "the " + d.Name + " driver cannot be made",
		}.Because(err)
	}
	e.made[d.Type] = &engine{Made: m}
	return e.made[d.Type], nil
}

// addNI brings an NI up on a node. Its errors are for an operator.
func (e *engines) addNI(ctx context.Context, n *node.Node, ni *config.NI) error {
	d := e.table.of(ni.Net.Type())
	if d == nil {
		return &api.Fault{
			Code: api.CodeInterface, Errno: -int(syscall.EPROTONOSUPPORT),
			Text:   fmt.Sprintf("net %s cannot be brought up", ni.Net),
			Cause:  fmt.Sprintf("this lnetd has no driver for %s nets", ni.Net.Type()),
			Remedy: "take the net out of the configuration",
		}
	}
	v := e.values[d.Type]
	m, err := e.open(ctx, n, d, v, ni)
	if m == nil || err == nil {
		return err
	}
	if again := d.again(m, v, err, e.log); again != nil {
		if err := e.end(d.Type); err != nil {
			return err
		}
		if m, err = e.open(ctx, n, d, again, ni); m == nil || err == nil {
			return err
		}
	}
	return d.explain(ni, err)
}

// open brings an NI up. Without a driver the error is an operator's.
func (e *engines) open(ctx context.Context, n *node.Node, d *Driver, v config.Values, ni *config.NI) (*engine, error) {
	m, err := e.engine(d, v)
	if err != nil {
		return nil, err
	}
	c := lnd.Config{Net: ni.Net, Device: ni.Device, NID: ni.NID, Tunables: ni.Tunables}
	if d.Options != nil {
		c.Options = d.Options(ni.Options)
	}
	info, err := n.AddNI(ctx, m.Driver, c)
	if err != nil {
		return m, err
	}
	m.nis++
	e.nids[nameOf(ni)] = info.NID
	e.log.Info("NI added", append([]any{
		"nid", info.NID.String(), "interface", info.Device,
		"peer_credits", info.Tunables.PeerCredits, "credits", info.Tunables.Credits,
		"peer_timeout", info.Tunables.PeerTimeout.String(),
	}, m.Attrs...)...)
	return m, nil
}

// removeNI takes an NI off a node that addNI has brought up there.
func (e *engines) removeNI(ctx context.Context, n *node.Node, ni *config.NI) error {
	nid, ok := e.nids[nameOf(ni)]
	if !ok {
		return fmt.Errorf("remove NI %s: %w", ni, node.ErrNotFound)
	}
	if err := n.RemoveNI(ctx, nid); err != nil {
		return err
	}
	delete(e.nids, nameOf(ni))
	e.log.Info("NI removed", "nid", nid.String())
	return nil
}

// set sets something else of the drivers for a net type that the node has no NI of.
func (e *engines) set(t lnet.NetType, v config.Values) error {
	if e.values == nil {
		e.values = map[lnet.NetType]config.Values{}
	}
	e.values[t] = v
	return e.end(t)
}

// again is what shall be set of a driver in place of one that brought up no NI.
func (d *Driver) again(m *engine, v config.Values, err error, log *slog.Logger) config.Values {
	if d.Again == nil || m.nis > 0 {
		return nil
	}
	return d.Again(v, err, log)
}

// explain turns an error of an NI into what an operator needs to know.
func (d *Driver) explain(ni *config.NI, err error) error {
	if d.Explain != nil {
		if better := d.Explain(err); better != nil {
			return better
		}
	}
	return api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(err)),
		Text:   fmt.Sprintf("NI %s cannot be brought up", ni),
		Remedy: "check with \"ip addr\" that the interface exists, is up and has an address",
	}.Because(err)
}

// close ends all drivers. The node has closed their interfaces.
func (e *engines) close() error {
	var errs []error
	for t := range e.made {
		errs = append(errs, e.end(t))
	}
	return errors.Join(errs...)
}

// end ends the driver for a net type.
func (e *engines) end(t lnet.NetType) error {
	m := e.made[t]
	delete(e.made, t)
	if m == nil || m.Close == nil {
		return nil
	}
	return m.Close()
}
