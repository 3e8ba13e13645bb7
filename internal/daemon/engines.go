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

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/server"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// engines are the drivers that a node has, each made when it is first needed, and its NIs.
// Who changes the node's configuration uses them, in turn; who only looks may any time.
type engines struct {
	table  Drivers
	values map[lnet.NetType]config.Values
	log    *slog.Logger
	cpts   int // CPU partitions that there are
	// interfaces lists the machine's network interfaces, for messages.
	interfaces func() ([]config.Interface, error)
	made       map[lnet.NetType]*engine

	mu  sync.Mutex // held while nis or values changes, or somebody looks out of turn
	nis []localNI  // in order
}

// localNI is an NI that the node has, or is to have when its interface can be used.
type localNI struct {
	config.NI        // as it was configured, with what is in force; Own: its NID
	device    string // which it is on
	former    string // the name that its device had when it was configured, if it was renamed since
	waits     error  // why it is not up; nil: it is
	// shown are the options in force when it came up or was changed.
	shown map[string]int64
}

// engine is a driver that was made.
type engine struct {
	Made
	nis int // that it has ever brought up
}

func newEngines(table Drivers, values map[lnet.NetType]config.Values, cpts int, log *slog.Logger) *engines {
	return &engines{
		table: table, values: maps.Clone(values), log: log, cpts: max(cpts, 1),
		made: map[lnet.NetType]*engine{},
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

// addNI brings an NI up on a node. If its interface cannot be used and wait is set, the
// NI waits for it. Its errors are for an operator, and have the NI's place in its file.
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
		return netRefused(syscall.EINVAL, "setting @lo not allowed", "0@lo is always there", "take the net out")
	}
	d := e.table.of(ni.Net.Type())
	if k := e.find(ni); k >= 0 {
		return twice(ni, &e.nis[k], node.ErrExists)
	}
	l := localNI{NI: *ni}
	l.Own = lnet.NID{}
	if l.waits = d.usable(ni); l.waits == nil {
		err := e.bringUp(ctx, n, d, &l)
		switch {
		case err == nil:
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			l.waits = err // an IPv6 address that is still tentative
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

// unusable is an NI that cannot be brought up and is not to wait.
func (e *engines) unusable(ni *config.NI, cause error) error {
	if f, ok := errors.AsType[*api.Fault](cause); ok {
		return f // in an operator's words
	}
	f := api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(cause)),
		Text:   "NI " + ni.String() + " cannot be brought up",
		Remedy: "check with \"ip addr\" that the interface is up and has the address",
	}
	if errors.Is(cause, syscall.ENODEV) {
		f.Text = fmt.Sprintf("No interface matching '%s'", nameOfInterface(ni))
		f.Remedy = "take one of those that there are: " + e.listInterfaces()
	}
	return f.Because(cause)
}

// listInterfaces are the machine's network interfaces with their addresses.
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

// nameOfInterface is what an operator has called an NI's interface.
func nameOfInterface(ni *config.NI) string {
	if ni.Device != "" {
		return ni.Device
	}
	return ni.NID.String()
}

// bringUp brings an NI up. The error is for an operator.
func (e *engines) bringUp(ctx context.Context, n *node.Node, d *Driver, l *localNI) error {
	v := e.values[d.Type]
	m, err := e.open(ctx, n, d, v, l)
	if m == nil || err == nil {
		return err
	}
	if again := d.again(m, v, err, e.log); again != nil {
		if err := e.end(d.Type); err != nil {
			return err
		}
		if m, err = e.open(ctx, n, d, again, l); m == nil || err == nil {
			return err
		}
	}
	if other := e.sameNID(d, &l.NI); other != nil && errors.Is(err, node.ErrExists) {
		return twice(&l.NI, other, err)
	}
	return d.explain(&l.NI, err)
}

// sameNID is the NI, named otherwise, that has the NID that an NI would have; nil: there is none.
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

// twice is the error of an NI where another one has its interface or its NID.
func twice(ni *config.NI, other *localNI, err error) error {
	return api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(err)), Text: fmt.Sprintf("NI %s cannot be brought up", ni),
		Cause: thereIs(&other.NI, other.waits), Remedy: remedyThereIs(&other.NI),
	}.Because(err)
}

// open brings an NI up. Without a driver the error is an operator's.
func (e *engines) open(ctx context.Context, n *node.Node, d *Driver, v config.Values, l *localNI) (*engine, error) {
	m, err := e.engine(d, v)
	if err != nil {
		return nil, err
	}
	c := lnd.Config{Net: l.Net, Device: l.Device, NID: l.NID, Tunables: l.Tunables, Options: d.options(l.Options)}
	info, err := n.AddNI(ctx, m.Driver, c)
	if err != nil {
		return m, err
	}
	m.nis++
	l.Own, l.device, l.shown, l.waits = info.NID, info.Device, d.show(&info), nil
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

// removeNI takes an NI off a node that addNI has brought up there, or has waiting.
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
		e.log.Info("NI removed, which was not up", "ni", ni.String())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nis = slices.Delete(e.nis, k, k+1)
	return nil
}

// order puts the NIs in the order that they had before; others come last.
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

// changeNI has other options hold for an NI from now on.
func (e *engines) changeNI(_ context.Context, n *node.Node, from, to *config.NI) error {
	k := e.find(from)
	if k < 0 {
		return fmt.Errorf("change NI %s: %w", from, node.ErrNotFound)
	}
	l := e.nis[k]
	if !l.Own.IsZero() {
		d := e.table.of(l.Net.Type())
		if err := n.TuneNI(l.Own, d.options(to.Options)); err != nil {
			return api.Fault{
				Code: api.CodeInterface, Errno: -int(server.Errno(err)), Text: fmt.Sprintf("NI %s cannot be changed while it is up", from),
				Remedy: "delete it, and add it again",
			}.Because(err)
		}
		for _, info := range n.NIs() {
			if info.NID == l.Own {
				l.shown = d.show(&info)
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

// set sets something else of the drivers for a net type that the node has no NI of.
func (e *engines) set(t lnet.NetType, v config.Values) error {
	values := maps.Clone(e.values) // others may look at it
	if values == nil {
		values = map[lnet.NetType]config.Values{}
	}
	values[t] = v
	e.mu.Lock()
	e.values = values
	e.mu.Unlock()
	return e.end(t)
}

// options are what lnd.Config.Options shall be.
func (d *Driver) options(v config.Values) any {
	if d.Options == nil {
		return nil
	}
	return d.Options(v)
}

func (d *Driver) show(i *node.NIInfo) map[string]int64 {
	if d.Show == nil {
		return nil
	}
	return d.Show(i)
}

// usable says why an NI's interface cannot be used now; nil: it can.
func (d *Driver) usable(ni *config.NI) error {
	if d.Usable == nil {
		return nil
	}
	_, _, err := d.Usable(ni)
	return err
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
	f := api.Fault{
		Code: api.CodeInterface, Errno: -int(server.Errno(err)),
		Text:   fmt.Sprintf("NI %s cannot be brought up", ni),
		Remedy: "check with \"ip addr\" that the interface exists, is up and has an address",
	}
	return f.Because(err)
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
