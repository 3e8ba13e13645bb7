package o2iblnd

import (
	"sync/atomic"
	"unsafe"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// registration is a program's memory that the interface's device knows. It implements
// memory.Registration.
type registration struct {
	i     *Interface
	bytes []byte
	key   atomic.Pointer[key] // nil: it has ended, or the device is gone
}

// key is what a device knows it by.
type key struct {
	dev *device
	mem verbs.Memory
}

// Register implements memory.Registrar.
func (i *Interface) Register(b []byte) (memory.Registration, error) {
	i.mu.RLock()
	closing := i.closing
	i.mu.RUnlock()
	if closing {
		return nil, messageError("register", lnet.NID{}, lnd.StatusLocalAborted, lnd.ErrClosed)
	}
	r := &registration{i: i, bytes: b}
	if err := r.register(); err != nil {
		return nil, messageError("register", lnet.NID{}, lnd.StatusLocalError, err)
	}
	i.mu.Lock()
	if i.closing {
		i.mu.Unlock()
		r.end()
		return nil, messageError("register", lnet.NID{}, lnd.StatusLocalAborted, lnd.ErrClosed)
	}
	i.regs[r] = struct{}{}
	i.mu.Unlock()
	return r, nil
}

// register makes the memory known to the device that there is; none: it is, when there is
// one.
func (r *registration) register() error {
	r.i.mu.RLock()
	var dev *device
	if l := r.i.bound; l != nil {
		dev = l.dev
		dev.retain()
	}
	r.i.mu.RUnlock()
	if dev == nil {
		return nil
	}
	mem, err := dev.v.Register(r.bytes, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		dev.release()
		return err
	}
	r.key.Store(&key{dev, mem})
	return nil
}

// Release implements memory.Registration.
func (r *registration) Release() error {
	r.i.mu.Lock()
	delete(r.i.regs, r)
	r.i.mu.Unlock()
	r.end()
	return nil
}

func (r *registration) end() {
	if k := r.key.Swap(nil); k != nil {
		_ = k.mem.Close() // a device that is gone has none any more
		k.dev.release()
	}
}

// address is where a part of the memory lies for the device.
func (r *registration) address(k *key, b []byte) uint64 {
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes)))
	return k.mem.Addr() + uint64(off)
}

func (i *Interface) registrations() []*registration {
	i.mu.RLock()
	defer i.mu.RUnlock()
	list := make([]*registration, 0, len(i.regs))
	for r := range i.regs {
		list = append(list, r)
	}
	return list
}

// releaseAll ends all registrations.
func (i *Interface) releaseAll() {
	for _, r := range i.registrations() {
		r.end()
	}
}

// releaseDevice ends those of a device that is gone.
func (i *Interface) releaseDevice(dev *device) {
	for _, r := range i.registrations() {
		if k := r.key.Load(); k != nil && k.dev == dev {
			r.end()
		}
	}
}

// registerAgain makes programs' memory known to a device that is new.
func (i *Interface) registerAgain() {
	for _, r := range i.registrations() {
		if err := r.register(); err != nil {
			i.log.Warn("memory is not registered: it will be copied", "bytes", len(r.bytes), "cause", err)
		}
	}
}

// retain makes one more use of a device that has one.
func (dev *device) retain() {
	dev.d.mu.Lock()
	defer dev.d.mu.Unlock()
	dev.users++
}
