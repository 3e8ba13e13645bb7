package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// engines holds the node's NIs and the running drivers. A driver is created when the first NI needs
// it. Methods that change the NIs or drivers must run under changes.inTurn. Methods that only read
// may run at any time.
type engines struct {
	table  Drivers
	values map[lnet.NetType]config.Values // the options of the drivers, by net type
	log    *slog.Logger
	cpts   int // number of CPU partitions
	// interfaces returns the host's network interfaces. Error messages list them.
	interfaces func() ([]config.Interface, error)
	made       map[lnet.NetType]*engine

	mu  sync.Mutex // held to change nis or values, and to read them outside of changes.inTurn
	nis []localNI  // all NIs of the configuration, in order
}

// localNI is an NI of the configuration. It is either up, or waiting until its interface is usable.
type localNI struct {
	config.NI        // as configured, with defaults filled in; Own is the NID, or zero if it was never up
	device    string // the device on which the NI is up
	former    string // the device's configured name, if the device was renamed since
	waits     error  // why the NI is not up; nil if it is up
	// shown holds the values of the options that were in force when the NI came up or was last changed.
	shown lnd.Values
}

// engine is a running driver.
type engine struct {
	Made
	nis int // number of NIs that the driver has brought up since it was created
}

func newEngines(table Drivers, values map[lnet.NetType]config.Values, cpts int, log *slog.Logger) *engines {
	return &engines{
		table: table, values: maps.Clone(values), log: log, cpts: max(cpts, 1),
		made: map[lnet.NetType]*engine{},
	}
}

// engine returns the running driver of d. If it does not run yet, engine creates it with the options
// v. The error can be shown to an operator unchanged.
func (e *engines) engine(d *Driver, v config.Values) (*engine, error) {
	if m := e.made[d.Type]; m != nil {
		return m, nil
	}
	m, err := d.Make(v, e.log)
	if err != nil {
		return nil, api.Fault{
			Code: api.CodeConfigInvalid, Text: "the " + d.Name + " driver cannot be created",
		}.Because(err)
	}
	e.made[d.Type] = &engine{Made: m}
	return e.made[d.Type], nil
}

// addNI brings up an NI on the node n. If the interface is not usable and wait is set, addNI stores the
// NI as waiting and returns nil, and retry brings it up later. Errors are for an operator. If they
// concern the interface, they contain the NI's position in the file.
func (e *engines) addNI(ctx context.Context, n *node.Node, ni *config.NI, wait bool) error {
	err := e.add(ctx, n, ni, wait)
	if f, ok := errors.AsType[*api.Fault](err); ok && f.Code == api.CodeInterface && ni.Where != "" {
		placed := *f
		placed.Text = ni.Where + ": " + f.Text
		return &placed
	}
	return err
}

func (e *engines) add(ctx context.Context, n *node.Node, ni *config.NI, wait bool) error {
	if ni.Net.Type() == lnet.TypeLO {
		return netRefused(syscall.EINVAL, "setting @lo not allowed", "0@lo is always there", "remove the net")
	}
	d := e.table.of(ni.Net.Type())
	if k := e.find(ni); k >= 0 {
		return isDuplicate(ni, &e.nis[k], node.ErrExists)
	}
	l := localNI{NI: *ni}
	l.Own = lnet.NID{}
	if l.waits = d.usable(ni); l.waits == nil {
		err := e.bringUp(ctx, n, d, &l)
		switch {
		case err == nil:
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			l.waits = err // the IPv6 address is still tentative
		default:
			return err
		}
	}
	if l.waits != nil && !wait {
		return e.unusable(ni, l.waits)
	}
	switch {
	case isNoDriver(l.waits):
		e.log.Warn(textUndriven, "ni", ni.String())
	case l.waits != nil:
		e.log.Warn(textWaits, "ni", ni.String(), "cause", causeOf(l.waits))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nis = append(e.nis, l)
	return nil
}

// unusable returns the error for an operator if an NI cannot be brought up because of cause, and may
// not wait for its interface.
func (e *engines) unusable(ni *config.NI, cause error) error {
	if f, ok := errors.AsType[*api.Fault](cause); ok {
		return f // the error is already one for an operator
	}
	f := api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(cause)),
		Text:   "NI " + ni.String() + " cannot be brought up",
		Remedy: "check with \"ip addr\" that the interface is up and has the address",
	}
	if errors.Is(cause, syscall.ENODEV) {
		f.Text = fmt.Sprintf("No interface matching '%s'", nameOfInterface(ni))
		f.Remedy = "use one of the existing interfaces: " + e.listInterfaces()
	}
	return f.Because(cause)
}

// listInterfaces returns a text that lists the host's network interfaces and their addresses.
func (e *engines) listInterfaces() string {
	all, err := e.interfaces()
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, i := range all {
		name := i.Name
		for _, a := range i.Addrs {
			name += " " + a.String()
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// nameOfInterface returns the name by which the operator selected an NI's interface: the device or,
// without one, the NID.
func nameOfInterface(ni *config.NI) string {
	if ni.Device != "" {
		return ni.Device
	}
	return ni.NID.String()
}

// bringUp brings up the NI l. If this fails and the driver has brought up no NI yet, bringUp tries the
// driver's fallback options. The error can be shown to an operator unchanged.
func (e *engines) bringUp(ctx context.Context, n *node.Node, d *Driver, l *localNI) error {
	v := e.values[d.Type]
	m, err := e.open(ctx, n, d, v, l)
	if m == nil || err == nil {
		return err
	}
	if again := d.fallbackOptions(m, v, err, e.log); again != nil {
		if err := e.end(d.Type); err != nil {
			return err
		}
		if m, err = e.open(ctx, n, d, again, l); m == nil || err == nil {
			return err
		}
	}
	if other := e.sameNID(d, &l.NI); other != nil && errors.Is(err, node.ErrExists) {
		return isDuplicate(&l.NI, other, err)
	}
	return d.explain(&l.NI, err)
}

// sameNID returns the existing NI that has the NID that ni would have, or nil. The two
// NIs may be configured by different names, for example one by its device and one by its NID.
func (e *engines) sameNID(d *Driver, ni *config.NI) *localNI {
	if d.Usable == nil {
		return nil
	}
	nid, _, err := d.Usable(ni)
	if err != nil {
		return nil
	}
	for k := range e.nis {
		if e.nis[k].Own == nid {
			return &e.nis[k]
		}
	}
	return nil
}

// isDuplicate returns the error for an operator if ni cannot be brought up because the existing NI
// other has its interface or NID.
func isDuplicate(ni *config.NI, other *localNI, err error) error {
	return api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(err)), Text: fmt.Sprintf("NI %s cannot be brought up", ni),
		Cause: thereIs(&other.NI, other.waits), Remedy: remedyThereIs(&other.NI),
	}.Because(err)
}

// open brings up the NI l on a driver with the options v, and stores the NI's actual NID, device and
// tunables in l. If the driver cannot be created, the returned engine is nil, and the error can be
// shown to an operator unchanged. Any other error is that of the driver.
func (e *engines) open(ctx context.Context, n *node.Node, d *Driver, v config.Values, l *localNI) (*engine, error) {
	m, err := e.engine(d, v)
	if err != nil {
		return nil, err
	}
	c := lnd.Config{Net: l.Net, Device: l.Device, NID: l.NID, Tunables: l.Tunables, Options: l.Options}
	info, err := n.AddNI(ctx, m.driver(&l.NI), c)
	if err != nil {
		return m, err
	}
	m.nis++
	l.Own, l.device, l.shown, l.waits = info.NID, info.Device, d.show(&info, v), nil
	if d.Defaults != nil {
		l.Tunables = info.Tunables
	}
	e.log.Info("NI added", append([]any{
		"nid", info.NID.String(), "interface", info.Device,
		"peer_credits", info.Tunables.PeerCredits, "credits", info.Tunables.Credits,
		"peer_timeout", info.Tunables.PeerTimeout.String(),
	}, m.Attrs...)...)
	return m, nil
}

// removeNI removes an NI, whether it is up on the node or waiting for its interface. It returns
// node.ErrNotFound if the NI does not exist.
func (e *engines) removeNI(ctx context.Context, n *node.Node, ni *config.NI) error {
	k := e.find(ni)
	if k < 0 {
		return fmt.Errorf("remove NI %s: %w", ni, node.ErrNotFound)
	}
	if own := e.nis[k].Own; !own.IsZero() {
		if err := n.RemoveNI(ctx, own); err != nil {
			return err
		}
		e.log.Info("NI removed", "nid", own.String())
	} else {
		e.log.Info("NI removed (it was not up)", "ni", ni.String())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nis = slices.Delete(e.nis, k, k+1)
	return nil
}

// order sorts the NIs of the configuration into the order of before. NIs that before does not contain
// come last. The order of the NIs in the node is not changed.
func (e *engines) order(before []config.NI) {
	e.mu.Lock()
	defer e.mu.Unlock()
	place := func(l *localNI) int {
		k := slices.IndexFunc(before, func(o config.NI) bool {
			return o.Net == l.Net && o.Device == l.Device && o.NID == l.NID
		})
		if k < 0 {
			return len(before)
		}
		return k
	}
	slices.SortStableFunc(e.nis, func(a, b localNI) int { return place(&a) - place(&b) })
}

// changeNI sets the options of the existing NI from to those of to. If the NI is up, it stays up. The
// node rejects options that cannot be changed while an NI is up.
func (e *engines) changeNI(_ context.Context, n *node.Node, from, to *config.NI) error {
	k := e.find(from)
	if k < 0 {
		return fmt.Errorf("change NI %s: %w", from, node.ErrNotFound)
	}
	l := e.nis[k]
	if !l.Own.IsZero() {
		d := e.table.of(l.Net.Type())
		if err := n.Admin().TuneNI(l.Own, to.Options); err != nil {
			return api.Fault{
				Code: api.CodeInterface, Errno: -int(server.Errno(err)), Text: fmt.Sprintf("NI %s cannot be changed while it is up", from),
				Remedy: "delete it and add it again",
			}.Because(err)
		}
		for _, info := range n.NIs() {
			if info.NID == l.Own {
				l.shown = d.show(&info, e.values[d.Type])
			}
		}
		e.log.Info("NI changed", "nid", l.Own.String(), "options", to.Options)
	}
	l.Options = to.Options
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nis[k] = l
	return nil
}

// set changes the options of the driver for a net type and stops the running driver, if any. The next
// NI of that type creates a driver with the new options. The node must have no NI of that type.
func (e *engines) set(t lnet.NetType, v config.Values) error {
	values := maps.Clone(e.values) // readers may hold the old map
	if values == nil {
		values = map[lnet.NetType]config.Values{}
	}
	values[t] = v
	e.mu.Lock()
	e.values = values
	e.mu.Unlock()
	return e.end(t)
}

// usable returns nil if the NI's interface can be used now. Otherwise the error says why not.
func (d *Driver) usable(ni *config.NI) error {
	if d.Usable == nil {
		return nil
	}
	_, _, err := d.Usable(ni)
	return err
}

// fallbackOptions returns the driver options to try after an NI could not be brought up with the
// options v because of err. It returns nil if no others would help, or if the driver has brought up an NI
// before, because other options would require a new driver.
func (d *Driver) fallbackOptions(m *engine, v config.Values, err error, log *slog.Logger) config.Values {
	if d.Fallback == nil || m.nis > 0 {
		return nil
	}
	return d.Fallback(v, err, log)
}

// explain returns the error for an operator if ni could not be brought up because of err.
func (d *Driver) explain(ni *config.NI, err error) error {
	if d.Explain != nil {
		if better := d.Explain(err); better != nil {
			return better
		}
	}
	f := api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(err)),
		Text:   fmt.Sprintf("NI %s cannot be brought up", ni),
		Remedy: "check with \"ip addr\" that the interface exists, is up and has an address",
	}
	return f.Because(err)
}

// close stops all drivers. The node must have been closed before, so that they have no NIs.
func (e *engines) close() error {
	var errs []error
	for t := range e.made {
		errs = append(errs, e.end(t))
	}
	return errors.Join(errs...)
}

// end stops the running driver for a net type, if any. The next NI of that type creates a new driver.
func (e *engines) end(t lnet.NetType) error {
	m := e.made[t]
	delete(e.made, t)
	if m == nil || m.Close == nil {
		return nil
	}
	return m.Close()
}
