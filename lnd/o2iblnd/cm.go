package o2iblnd

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// listener accepts connections at one address, for all interfaces that have this address.
type listener struct {
	d    *Driver
	at   netip.AddrPort
	id   verbs.ID
	dev  *device
	port int

	users   []*Interface // guarded by Driver.mu
	defunct bool         // its device or address is gone, so its users must leave it; guarded by Driver.mu
}

// backlog is how many connection requests may wait to be processed.
const backlog = 128

var errDefunct = errors.New("the previous listener is still closing")

// bind makes i a user of the listener for its address. It creates the listener if the address has no other. It
// returns a *lnd.ListenError if that fails, or if the existing listener is defunct and its users have not left
// it yet.
func (d *Driver) bind(i *Interface) error {
	at := netip.AddrPortFrom(i.Address, uint16(d.config.Service))
	d.binding.Lock()
	defer d.binding.Unlock()
	d.mu.Lock()
	l := d.listeners[at]
	if l != nil && !l.defunct {
		l.users = append(l.users, i)
	}
	d.mu.Unlock()
	switch {
	case l == nil:
		var err error
		if l, err = d.listen(i, at); err != nil {
			return &lnd.ListenError{Addr: at, Err: err}
		}
	case l.defunct:
		return &lnd.ListenError{Addr: at, Err: errDefunct}
	}
	i.mu.Lock()
	i.bound = l
	i.mu.Unlock()
	return nil
}

// listen creates a listener at an address, with i as its only user. It opens the event channel if that is not
// open. d.binding is held.
func (d *Driver) listen(i *Interface, at netip.AddrPort) (*listener, error) {
	if d.channel == nil {
		ch, err := d.config.Provider.OpenChannel()
		if err != nil {
			return nil, err
		}
		d.channel = ch
		d.group.Add(1)
		go d.events(ch)
	}
	l := &listener{d: d, at: at, users: []*Interface{i}}
	d.owning.Lock()
	id, err := d.channel.Listen(at, backlog)
	if err == nil {
		id.SetOwner(l)
	}
	d.owning.Unlock()
	if err != nil {
		return nil, err
	}
	l.id = id
	if l.dev, l.port, err = d.deviceOf(id); err != nil {
		id.Destroy()
		return nil, err
	}
	d.mu.Lock()
	d.listeners[at] = l
	d.mu.Unlock()
	return l, nil
}

// unbind makes i leave its listener. It closes the listener if no user remains.
func (d *Driver) unbind(i *Interface) {
	d.binding.Lock()
	defer d.binding.Unlock()
	i.mu.Lock()
	l := i.bound
	i.bound = nil
	i.mu.Unlock()
	if l == nil {
		return
	}
	d.mu.Lock()
	l.users = slices.DeleteFunc(l.users, func(o *Interface) bool { return o == i })
	last := len(l.users) == 0
	if last {
		delete(d.listeners, l.at)
	}
	d.mu.Unlock()
	if last {
		l.id.Destroy()
		l.dev.release()
	}
}

// dial starts an attempt to connect: it creates the ID of c. Events report the progress of the attempt.
func (d *Driver) dial(c *conn, to verbs.Dial) error {
	d.binding.Lock()
	ch := d.channel
	d.binding.Unlock()
	if ch == nil {
		return errDeviceGone
	}
	d.owning.Lock()
	defer d.owning.Unlock()
	id, err := ch.Dial(to)
	if err != nil {
		return err
	}
	c.id = id
	id.SetOwner(c)
	return nil
}

// eventsPause is the pause before events are fetched again after that has failed, for example because memory is
// short.
const eventsPause = time.Second

// events is the goroutine that processes the connection events of a channel until the channel is closed.
func (d *Driver) events(ch verbs.Channel) {
	defer d.group.Done()
	var ev [32]verbs.Event
	for {
		n, err := ch.Events(ev[:])
		switch {
		case errors.Is(err, verbs.ErrClosed):
			return
		case err != nil:
			d.log.Report(boundedlog.Line{Level: slog.LevelError, Text: "cannot read events of the RDMA connection manager; no connections are established until a retry succeeds"}, slog.Any("cause", err))
			time.Sleep(eventsPause)
			continue
		}
		for k := range ev[:n] {
			d.event(&ev[k])
			ev[k] = verbs.Event{}
		}
	}
}

// ownerOf returns the owner of an ID: a *conn or a *listener. The first event of a new ID may arrive before its
// owner is set; ownerOf then waits for that.
func (d *Driver) ownerOf(id verbs.ID) any {
	d.owning.Lock()
	defer d.owning.Unlock()
	return id.Owner()
}

func (d *Driver) event(e *verbs.Event) {
	if e.Kind == verbs.EventConnectRequest {
		l, _ := d.ownerOf(e.Listener).(*listener)
		if l == nil {
			e.ID.Destroy()
			return
		}
		l.request(e)
		return
	}
	switch o := d.ownerOf(e.ID).(type) {
	case *conn:
		if o.hold() { // otherwise the connection has been freed
			o.event(e)
			o.unref()
		}
	case *listener:
		switch e.Kind {
		case verbs.EventDeviceRemoval:
			d.removed(o.dev)
		case verbs.EventAddrChange:
			d.retire(o)
		}
	}
}

// removed marks a device as no longer usable and retires its listeners. It is called when the device was
// removed or has failed.
func (d *Driver) removed(dev *device) {
	if dev.gone.Swap(true) {
		return
	}
	d.log.Warn("RDMA device was removed or has failed; its connections are closed", "device", dev.attr.Name)
	d.mu.Lock()
	var list []*listener
	for _, l := range d.listeners {
		if l.dev == dev {
			list = append(list, l)
		}
	}
	d.mu.Unlock()
	for _, l := range list {
		d.retire(l)
	}
}

// retire marks a listener as defunct. Its users then leave it, close their connections, and look for a device
// again.
func (d *Driver) retire(l *listener) {
	d.mu.Lock()
	l.defunct = true
	users := slices.Clone(l.users)
	d.mu.Unlock()
	for _, i := range users {
		i.keeper.do(task{kind: taskBind})
	}
}
