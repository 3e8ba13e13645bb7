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

// engines holds the node's NIs and its drivers, each created when it is first needed. Code that
// changes the node's configuration must run under changes.inTurn. Code that only reads may use it
// at any time.
type engines struct {
	table  Drivers
	values map[lnet.NetType]config.Values
	log    *slog.Logger
	cpts   int // number of CPU partitions
	// interfaces returns the host's network interfaces, for messages.
	interfaces func() ([]config.Interface, error)
	made       map[lnet.NetType]*engine

	mu  sync.Mutex // held to change nis or values, and to read them out of turn
	nis []localNI  // in order
}

// localNI is an NI that the node has, or will have when its interface is usable.
type localNI struct {
	config.NI        // as configured, with the values in force; Own is its NID
	device    string // the device that it is on
	former    string // the device's configured name, if the device was renamed since
	waits     error  // why it is not up, or nil
	// shown holds the options in force when the NI came up or was last changed.
	shown lnd.Values
}

// engine is a driver that was created.
type engine struct {
	Made
	nis int // number of NIs that it has brought up so far
}

func newEngines(table Drivers, values map[lnet.NetType]config.Values, cpts int, log *slog.Logger) *engines {
	return &engines{
		table: table, values: maps.Clone(values), log: log, cpts: max(cpts, 1),
		made: map[lnet.NetType]*engine{},
	}
}

// engine returns the driver for a net type, and creates it if necessary.
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

// addNI brings up an NI on a node. If its interface is not usable and wait is set, the NI waits
// for it. Errors are for an operator and contain the NI's position in the file.
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

// unusable returns the error of an NI that cannot be brought up and does not wait.
func (e *engines) unusable(ni *config.NI, cause error) error {
	if f, ok := errors.AsType[*api.Fault](cause); ok {
		return f // made for an operator already
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

// listInterfaces returns the host's network interfaces with their addresses as text.
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

// nameOfInterface returns the operator's name of an NI's interface.
func nameOfInterface(ni *config.NI) string {
	if ni.Device != "" {
		return ni.Device
	}
	return ni.NID.String()
}

// bringUp brings up an NI. The error can be shown to an operator unchanged.
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

// sameNID returns the NI with another name that has the NID that ni would have, or nil.
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

// isDuplicate returns the error of an NI whose interface or NID another NI has.
func isDuplicate(ni *config.NI, other *localNI, err error) error {
	return api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(err)), Text: fmt.Sprintf("NI %s cannot be brought up", ni),
		Cause: thereIs(&other.NI, other.waits), Remedy: remedyThereIs(&other.NI),
	}.Because(err)
}

// open brings up an NI. If the driver cannot be created, the returned engine is nil and the error
// can be shown to an operator unchanged.
func (e *engines) open(ctx context.Context, n *node.Node, d *Driver, v config.Values, l *localNI) (*engine, error) {
	m, err := e.engine(d, v)
	if err != nil {
		return nil, err
	}
	c := lnd.Config{Net: l.Net, Device: l.Device, NID: l.NID, Tunables: l.Tunables, Options: l.Options}
	info, err := n.AddNI(ctx, m.Driver, c)
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

// removeNI removes an NI that addNI has brought up on the node, or that waits.
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

// order restores the order of NIs in before. Other NIs come last.
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

// changeNI changes the options of an NI.
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

// set changes the options of the driver for a net type. The node must have no NI of that type.
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

// usable returns why an NI's interface cannot be used now, or nil if it can.
func (d *Driver) usable(ni *config.NI) error {
	if d.Usable == nil {
		return nil
	}
	_, _, err := d.Usable(ni)
	return err
}

// fallbackOptions returns the options to try instead for a driver that has brought up no NI yet, or nil.
func (d *Driver) fallbackOptions(m *engine, v config.Values, err error, log *slog.Logger) config.Values {
	if d.Fallback == nil || m.nis > 0 {
		return nil
	}
	return d.Fallback(v, err, log)
}

// explain converts an error of an NI for an operator.
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

// close stops all drivers. The node must have closed their interfaces.
func (e *engines) close() error {
	var errs []error
	for t := range e.made {
		errs = append(errs, e.end(t))
	}
	return errors.Join(errs...)
}

// end stops the driver for a net type.
func (e *engines) end(t lnet.NetType) error {
	m := e.made[t]
	delete(e.made, t)
	if m == nil || m.Close == nil {
		return nil
	}
	return m.Close()
}
