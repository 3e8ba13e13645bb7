package o2iblnd

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// device is an RDMA device that interfaces share: what is registered with it, and the
// completion queues of all connections on it.
type device struct {
	d    *Driver
	v    verbs.Device
	attr verbs.DeviceAttr

	// local is memory that no peer may write to: messages, and what is sent. Peers
	// write what they send into remote.
	local, remote *arena
	pools         [roles]pool
	gone          atomic.Bool // it was taken out, or has failed

	making sync.Mutex // a queue
	vector int        // of the next queue; guarded by making

	// Guarded by Driver.mu.
	users  int // interfaces and connections
	queues []*queue
}

// role says who began the transfer that memory is lent for. What peers have begun
// goes on whatever becomes of what we have begun, and with their memory lent it ends: so no
// two nodes wait for each other.
type role uint8

const (
	ours role = iota
	theirs
	roles
)

// pool bounds what is lent for transfers.
type pool struct {
	used   atomic.Int64
	hungry atomic.Bool // somebody waits
}

// deviceOf finds what the driver has of a device, or makes it; it has one more user. A device
// that has failed has none any more: when the last has gone it is closed, and opened anew.
func (d *Driver) deviceOf(id verbs.ID) (*device, int, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	v, port, err := id.Device()
	if err != nil {
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dev := d.devices[v]
	if dev == nil {
		dev = &device{
			d: d, v: v, attr: v.Attr(),
			local:  newArena(v, verbs.AccessLocalWrite, true),
			remote: newArena(v, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, true),
		}
		d.devices[v] = dev
		d.group.Add(1)
		go dev.watch()
	}
	if dev.gone.Load() {
		return nil, 0, errDeviceGone
	}
	dev.users++
	return dev, port, nil
}

// release ends a use. The last one closes the device, before anybody opens it again.
func (dev *device) release() {
	d := dev.d
	d.mu.Lock()
	dev.users--
	used := dev.users > 0
	d.mu.Unlock()
	if !used {
		d.opening.Lock()
		defer d.opening.Unlock()
		dev.close()
	}
}

// close closes a device that nobody uses. Driver.opening is held.
func (dev *device) close() {
	d := dev.d
	d.mu.Lock()
	if dev.users > 0 || d.devices[dev.v] != dev { // meanwhile
		d.mu.Unlock()
		return
	}
	delete(d.devices, dev.v)
	queues := dev.queues
	dev.queues = nil
	d.mu.Unlock()
	for _, q := range queues {
		_ = q.cq.Close() // a device that is gone has none any more
	}
	dev.local.close()
	dev.remote.close()
	if err := dev.v.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		d.log.Warn("device is not closed", "device", dev.attr.Name, "cause", err)
	}
}

// watch takes the device's events until it is closed.
func (dev *device) watch() {
	defer dev.d.group.Done()
	var ev [16]verbs.AsyncEvent
	for {
		n, err := dev.v.Events(ev[:])
		if err != nil {
			if !errors.Is(err, verbs.ErrClosed) {
				dev.d.log.Warn("no more events of a device", "device", dev.attr.Name, "cause", err)
			}
			return
		}
		for _, e := range ev[:n] {
			dev.event(e)
		}
	}
}

// event acts on a device event (o2iblnd 16).
func (dev *device) event(e verbs.AsyncEvent) {
	switch e.Kind {
	case verbs.AsyncCommEst:
		if c := dev.d.connOf(dev, e.QPN); c != nil {
			_ = c.id.Established() // it may have ended
		}
	case verbs.AsyncQPFatal, verbs.AsyncQPRequestError, verbs.AsyncQPAccessError:
		if c := dev.d.connOf(dev, e.QPN); c != nil {
			c.close(deviceFailure(errors.New(e.Kind.String())))
		}
	case verbs.AsyncDeviceFatal:
		dev.d.removed(dev)
	case verbs.AsyncPortActive, verbs.AsyncPortError:
		for _, i := range dev.d.interfacesOn(dev) {
			i.checkLink()
		}
	case verbs.AsyncCQError: // nobody knows what was lost
		dev.d.log.Error("a completion queue has overflowed", "device", dev.attr.Name)
		dev.d.removed(dev)
	}
}

// lend lends n bytes for a transfer with a peer. The error is errNoMemory, or the device's.
// A peer that has some gets no more than is left for others then: so none can use up what
// all need.
func (dev *device) lend(of *peer, a *arena, r role, n int) (block, error) {
	p, lent := &dev.pools[r], &of.lent[r]
	size, all := int64(pageSize<<orderOf(n)), int64(dev.d.config.Pool)
	fits := func() bool {
		used, has := p.used.Load(), lent.Load()
		return used+size <= all && (has == 0 || has+size <= all-used)
	}
	if !fits() {
		p.hungry.Store(true)
		if !fits() { // nothing was given back meanwhile
			return block{}, errNoMemory
		}
	}
	p.used.Add(size) // others may have been quicker: a bound to within a few blocks will do
	lent.Add(size)
	b, err := a.lend(n)
	if err != nil {
		p.used.Add(-size)
		lent.Add(-size)
		if errors.Is(err, verbs.ErrLocked) && p.used.Load() > 0 {
			p.hungry.Store(true)
			err = errNoMemory // what is lent comes back
		}
	}
	return b, err
}

// giveBack ends a transfer's use of memory, and tells who waits for some.
func (dev *device) giveBack(of *peer, a *arena, r role, b block) {
	a.giveBack(b)
	p := &dev.pools[r]
	p.used.Add(-int64(b.size()))
	of.lent[r].Add(-int64(b.size()))
	if p.hungry.Load() && p.hungry.Swap(false) {
		for _, i := range dev.d.interfacesOn(dev) {
			i.keeper.do(task{kind: taskFeed})
		}
	}
}
