package o2iblnd

import (
	"sync"
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

	mu    sync.Mutex // held while key changes; comes before all other locks
	ended bool       // guarded by mu
}

// key is what a device knows it by.
type key struct {
	dev *device
	mem verbs.Memory
}

// Register implements memory.Registrar.
func (i *Interface) Register(b []byte) (memory.Registration, error) {
	r := &registration{i: i, bytes: b}
	i.mu.Lock()
	closing := i.closing
	if !closing {
		i.regs[r] = struct{}{} // before it is registered: a device that comes now finds it
	}
	i.mu.Unlock()
	if closing {
		return nil, messageError("register", lnet.NID{}, lnd.StatusLocalAborted, lnd.ErrClosed)
	}
	if err := r.register(); err != nil {
		_ = r.Release() // it never fails
		return nil, messageError("register", lnet.NID{}, lnd.StatusLocalError, err)
	}
	return r, nil
}

// register makes the memory known to the device that there is; none: it is, when there is
// one.
func (r *registration) register() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	dev := r.i.boundDevice()
	if dev == nil {
		return nil
	}
	if k := r.key.Load(); r.ended || k != nil && k.dev == dev {
		dev.release()
		return nil
	}
	r.drop()
	mem, err := dev.v.Register(r.bytes, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		dev.release()
		return err
	}
	r.key.Store(&key{dev, mem})
	return nil
}

// boundDevice is the device that there is, with one more use; nil: there is none.
func (i *Interface) boundDevice() *device {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.bound == nil {
		return nil
	}
	i.bound.dev.retain()
	return i.bound.dev
}

// Release implements memory.Registration.
func (r *registration) Release() error {
	r.i.mu.Lock()
	delete(r.i.regs, r)
	r.i.mu.Unlock()
	r.end()
	return nil
}

// end ends the registration for good.
func (r *registration) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.drop()
}

// drop has the device forget the memory. r.mu is held.
func (r *registration) drop() {
	if k := r.key.Swap(nil); k != nil {
		_ = k.mem.Close() // a device that is gone has none any more
		k.dev.release()
	}
}

// leave is drop, if the device is dev.
func (r *registration) leave(dev *device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.key.Load(); k != nil && k.dev == dev {
		r.drop()
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
		r.leave(dev)
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
