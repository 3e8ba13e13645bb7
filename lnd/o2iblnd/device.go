package o2iblnd

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// device is an RDMA device, which several interfaces may use. It has the memory that the driver has registered
// with the device, and the completion queues of all connections on it.
type device struct {
	d    *Driver
	v    verbs.Device
	attr verbs.DeviceAttr

	// local is memory that peers cannot write to; it holds messages and outgoing payload. remote is memory into
	// which peers write payload by RDMA.
	local, remote *arena
	pools         [roles]pool
	gone          atomic.Bool // the device was removed or has failed

	making sync.Mutex // held while a queue is created
	vector int        // interrupt vector of the next queue; guarded by making

	// Guarded by Driver.mu.
	users  int // number of listeners, connections and registrations that use the device
	queues []*queue
}

// role is the side that started a transfer. The memory for transfers of each role is limited separately. So
// transfers that peers have started can always finish, however many this node has started, and two nodes never
// deadlock by waiting for each other's memory.
type role uint8

const (
	ours role = iota
	theirs
	roles
)

// pool counts the memory in use for the transfers of one role.
type pool struct {
	used   atomic.Int64 // bytes in use
	wanted atomic.Bool  // a transfer waits for memory
}

// deviceOf returns the driver's record of the device of an ID, and the port. It creates the record if there is
// none yet, and adds a user, which the caller must release. It returns an error for a device that has failed.
// Such a device is closed after its last user has released it, and can then be opened again.
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

// release removes a user. If it was the last one, release closes the device.
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

// close closes a device that no longer has users. Driver.opening is held.
func (dev *device) close() {
	d := dev.d
	d.mu.Lock()
	if dev.users > 0 || d.devices[dev.v] != dev { // another goroutine uses it again, or has closed it
		d.mu.Unlock()
		return
	}
	delete(d.devices, dev.v)
	queues := dev.queues
	dev.queues = nil
	d.mu.Unlock()
	for _, q := range queues {
		_ = q.cq.Close() // fails if the device is gone
	}
	if err := errors.Join(dev.local.close(), dev.remote.close()); err != nil {
		d.mu.Lock()
		d.lost = append(d.lost, fmt.Errorf("device %s: %w", dev.attr.Name, err))
		d.mu.Unlock()
	}
	if err := dev.v.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		d.log.Warn("cannot close an RDMA device", "device", dev.attr.Name, "cause", err)
	}
}

// watch is the goroutine that processes the device's events until the device is closed.
func (dev *device) watch() {
	defer dev.d.group.Done()
	var ev [16]verbs.AsyncEvent
	for {
		n, err := dev.v.Events(ev[:])
		if err != nil {
			if !errors.Is(err, verbs.ErrClosed) {
				dev.d.log.Warn("cannot read events of an RDMA device; changes of its ports are not detected until lnetd restarts", "device", dev.attr.Name, "cause", err)
			}
			return
		}
		for _, e := range ev[:n] {
			dev.event(e)
		}
	}
}

// event processes a device event (o2iblnd 16).
func (dev *device) event(e verbs.AsyncEvent) {
	switch e.Kind {
	case verbs.AsyncCommEst:
		if c := dev.d.connOf(dev, e.QPN); c != nil {
			_ = c.id.Established() // fails only if the connection has ended
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
	case verbs.AsyncCQError: // completions were lost, and their connections are unknown, so the device counts as failed
		dev.d.log.Error("a completion queue of an RDMA device overflowed; connections on the device are closed", "device", dev.attr.Name)
		dev.d.removed(dev)
	}
}

// allocFor allocates n bytes of a for a transfer with a peer. r is the side that started the transfer. It
// returns errNoMemory if the pool of r has too little left, or a device error. A peer that already holds memory
// gets more only if its total then does not exceed what the pool has left, so that one peer cannot exhaust the
// pool.
func (dev *device) allocFor(of *peer, a *arena, r role, n int) (block, error) {
	p, lent := &dev.pools[r], &of.allocated[r]
	size, all := int64(pageSize<<orderOf(n)), int64(dev.d.config.Pool)
	fits := func() bool {
		used, has := p.used.Load(), lent.Load()
		return used+size <= all && (has == 0 || has+size <= all-used)
	}
	if !fits() {
		p.wanted.Store(true)
		if !fits() { // no memory was released before wanted was set
			return block{}, errNoMemory
		}
	}
	p.used.Add(size) // concurrent callers may exceed the limit by a few blocks, which is acceptable
	lent.Add(size)
	b, err := a.alloc(n)
	if err != nil {
		p.used.Add(-size)
		lent.Add(-size)
		if errors.Is(err, verbs.ErrLocked) && p.used.Load() > 0 {
			p.wanted.Store(true)
			err = errNoMemory // the transfer can wait, because memory in use will be released
		}
	}
	return b, err
}

// freeFor frees memory that allocFor has allocated for a transfer. If other transfers wait for memory, the
// keepers retry them.
func (dev *device) freeFor(of *peer, a *arena, r role, b block) {
	a.release(b)
	p := &dev.pools[r]
	p.used.Add(-int64(b.size()))
	of.allocated[r].Add(-int64(b.size()))
	if p.wanted.Load() && p.wanted.Swap(false) {
		for _, i := range dev.d.interfacesOn(dev) {
			i.keeper.do(task{kind: taskMemory})
		}
	}
}
