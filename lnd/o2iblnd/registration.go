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

// registration is memory of the program that is registered with the device of an interface. It exists until
// Release or the end of the interface, also while the interface has no device. It implements
// memory.Registration.
type registration struct {
	i     *Interface
	bytes []byte
	key   atomic.Pointer[key] // nil while the memory is not registered with a device

	mu    sync.Mutex // held while key changes; acquired before all other locks
	ended bool       // guarded by mu
}

// key is a registration of memory with one device.
type key struct {
	dev *device
	mem verbs.Memory
}

// Register implements memory.Registrar.
func (i *Interface) Register(b []byte) (memory.Registration, error) {
	r := &registration{i: i, bytes: b}
	i.mu.Lock()
	closing := i.Closed()
	if !closing {
		i.regs[r] = struct{}{} // before register: if a device appears now, registerAgain registers r
	}
	i.mu.Unlock()
	if closing {
		return nil, i.Error("register", lnet.NID{}, lnd.StatusLocalAborted, lnd.ErrClosed)
	}
	if err := r.register(); err != nil {
		_ = r.Release() // never fails
		return nil, i.Error("register", lnet.NID{}, lnd.StatusLocalError, err)
	}
	return r, nil
}

// register registers the memory with the interface's device. If the interface has no device, register does
// nothing, and registerAgain registers the memory later, when there is a device.
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

// boundDevice returns the interface's device and adds a user to it, which the caller must release. It returns
// nil if the interface has no device.
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

// end ends the registration: the memory is removed from the device and never registered again.
func (r *registration) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.drop()
}

// drop removes the memory from the device that it is registered with, if any. r.mu is held.
func (r *registration) drop() {
	if k := r.key.Swap(nil); k != nil {
		_ = k.mem.Close() // fails if the device is gone
		k.dev.release()
	}
}

// leave removes the memory from dev if it is registered with this device.
func (r *registration) leave(dev *device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.key.Load(); k != nil && k.dev == dev {
		r.drop()
	}
}

// address returns the address that the device uses for b, a part of the memory.
func (r *registration) address(k *key, b []byte) uint64 {
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes)))
	return k.mem.Addr() + uint64(off)
}

// registrations returns all registrations of the interface.
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

// releaseDevice removes the memory of all registrations from a device that is gone.
func (i *Interface) releaseDevice(dev *device) {
	for _, r := range i.registrations() {
		r.leave(dev)
	}
}

// registerAgain registers the memory of all registrations with the interface's new device. Payload in memory
// that cannot be registered is copied.
func (i *Interface) registerAgain() {
	for _, r := range i.registrations() {
		if err := r.register(); err != nil {
			i.Log.Warn("cannot register memory with a device; the data will be copied", "bytes", len(r.bytes), "cause", err)
		}
	}
}

// retain adds a user to a device that already has users.
func (dev *device) retain() {
	dev.d.mu.Lock()
	defer dev.d.mu.Unlock()
	dev.users++
}
